"""The scores of a task written for lm-eval, whose methods may compute and aggregate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.compat.lm_eval.api.requests import TaskRequests
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.forms import Sample
from multiform.forms.hooks import Hooks
from multiform.requests import Completion, LLOutput, Output, RollingRequest
from multiform.scoring.filters import Pipeline
from multiform.statistics.estimates import Estimate


class TaskScores(TaskRequests):
    """Calls `process_results`, `aggregation` and `higher_is_better` where a class has its own."""

    def _hooks(self) -> Hooks:
        hooks = super()._hooks()
        return {**hooks, "filtered": self._filtered} if "construct_requests" in hooks else hooks

    def _filtered(self, pipeline: Pipeline, sample: Sample, outputs: Sequence[Output]) -> list[Any]:
        """What the responses of each instance come to; a task's own instances may be of several kinds."""
        rolling = any(isinstance(instance.request, RollingRequest) for instance in sample.instances)
        results: list[Any] = []
        texts: list[str] = []
        for output in outputs:
            if isinstance(output, LLOutput):
                results.append(output.loglikelihood if rolling else (output.loglikelihood, output.is_greedy))
                continue
            texts.append(output.text)
            if len(texts) == self.config.repeats:
                left = pipeline(texts, sample.doc)
                results.append(left[0] if pipeline.single else left)
                texts = []
        return results

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of one document: by the configuration's function, or by its metrics."""
        if self.config.process_results is not None:
            return super().process_results(doc, results)
        asked = self.renderer.instances(self.renderer.fields(doc), "", doc_id=0, chat=False)
        return self.scorer.computed(self.renderer.with_requests(0, doc, asked), [_output(r) for r in results], results)

    def estimates(self, scored: Any, bootstrap_iters: int = 100_000) -> dict[str, Estimate]:
        try:
            return super().estimates(scored, bootstrap_iters)
        except DataError as error:
            if "aggregation" not in self.form.hooks:
                raise
            hint = "the task's own code does that: install what it imports and allow what it downloads, or predict_only"
            raise DataError(error.what, where=self.config.where("aggregation"), hint=hint) from error


def _output(result: Any) -> Output:
    """A result as it was before filtering, as far as that can be told."""
    if isinstance(result, tuple | list) and len(result) == 2 and not isinstance(result[0], str):
        return LLOutput(float(result[0]), bool(result[1]))
    return LLOutput(result) if isinstance(result, int | float) else Completion(str(result))
