"""The scores of a task written for lm-eval, whose own code may give and aggregate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.compat.lm_eval.api.requests import TaskRequests
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.requests import Completion, LLOutput, RollingRequest
from multiform.requests import Instance as Ours
from multiform.scoring.filters import Pipeline
from multiform.scoring.scorers import Scorer
from multiform.scoring.statistics import Estimate
from multiform.tasks import Answered, ScoredDoc
from multiform.tasks import Task as OurTask


class TaskScores(TaskRequests):
    """Calls `process_results`, `aggregation` and `higher_is_better` where a class has its own."""

    #: Whether the document that is scored asked for the likelihood of whole texts.
    _rolling = False

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        """What each instance's answers come to; those of a task's own instances may be of several kinds."""
        if not self._asks_itself:
            return super().filtered(pipeline, doc, outputs)
        made: list[Any] = []
        texts: list[str] = []
        for output in outputs:
            if isinstance(output, LLOutput):
                made.append(output.loglikelihood if self._rolling else (output.loglikelihood, output.is_greedy))
                continue
            assert isinstance(output, Completion)
            texts.append(output.text)
            if len(texts) == self.config.repeats:
                kept = pipeline(texts, doc)
                made.append(kept[0] if pipeline.single else kept)
                texts = []
        return made

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of one document: by the configuration's function, or by its metrics."""
        if self.config.process_results is not None:
            return super().process_results(doc, results)
        asked = self.requests(dict(doc), "", apply_chat_template=False)
        outputs = [_output(result) for result in results]
        made = tuple(Ours(0, index, request) for index, request in enumerate(asked))
        outcomes = self.outcomes(doc, Answered(doc_id=0, instances=made, outputs=tuple(outputs)), results)
        return self.scoring.scorers[0].score_repeats(outcomes)

    def _scored(self, scorer: Scorer, answered: Answered, values: Mapping[str, Any] | None = None) -> ScoredDoc:
        self._rolling = any(isinstance(one.request, RollingRequest) for one in answered.instances)
        return self._by_its_code("process_results", lambda: super(TaskScores, self)._scored(scorer, answered, values))

    def estimates(self, scored: Any, bootstrap_iters: int = 100_000) -> dict[str, Estimate]:
        try:
            return super().estimates(scored, bootstrap_iters)
        except DataError as error:
            if not self._aggregates_itself:
                raise
            hint = "the task's own code does that: install what it imports and allow what it downloads, or predict_only"
            raise DataError(error.what, where=self.config.where("aggregation"), hint=hint) from error

    @property
    def _scores_itself(self) -> bool:
        overridden = type(self).process_results is not TaskScores.process_results
        return not self._only_metric and (overridden or self.config.process_results is not None)

    @property
    def _aggregates_itself(self) -> bool:
        return type(self).aggregation is not OurTask.aggregation


def _output(result: Any) -> Any:
    """A result as it was before filtering, as far as that can be told."""
    if isinstance(result, tuple | list) and len(result) == 2 and not isinstance(result[0], str):
        return LLOutput(float(result[0]), bool(result[1]))
    return LLOutput(result) if isinstance(result, int | float) else Completion(str(result))
