"""Tasks in which the model writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.answers import label_list
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.media import media_of
from multiform.requests import Completion, GenerationRequest, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers import Scorer
from multiform.tasks.records import Answered
from multiform.tasks.task import Task


class GenerateTask(Task):
    """What does the model write after the prompt? Asked once, or as often as `repeats` says."""

    OUTPUT_TYPE = "generate_until"

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        assert isinstance(ctx, str)
        self.references(doc)  # a document whose answer does not resolve is an error before the model is asked
        kwargs = self.config.generation_kwargs
        ctx = self.with_media(ctx, doc)
        repeats = range(self.config.repeats)
        return [GenerationRequest.of(str(ctx), kwargs, sample, media_of(ctx)) for sample in repeats]

    def references(self, doc: Doc) -> tuple[Any, ...]:
        """The texts that count as right."""
        target = self.doc_to_target(doc)
        targets = target if isinstance(target, list) else [target]
        if self.config.format is None and self.config.doc_to_choice is not None:
            choices = self.doc_to_choice(doc)
            targets = [choices[t] if isinstance(t, int) and 0 <= t < len(choices) else t for t in targets]
        if self._scores_itself:
            return tuple(targets)
        if not targets or any(t is None for t in targets):
            raise DataError("there is no answer", where=self.config.where("doc_to_target"), hint="check doc_to_target")
        return tuple(str(t) for t in targets)

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        texts = pipeline([output.text for output in outputs], doc)
        return texts if pipeline.single else [texts]

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        form = self.config.format
        shown: tuple[str, ...] = ()
        labels: tuple[str, ...] = ()
        if form is not None and form.shows_choices and self.config.mapping.choices is not None:
            shown = tuple(self.reader.raw_choices(doc))
            labels = tuple(label_list(len(shown), form.choice_labels)) if form.choice_labels else ()
        first, asked = answered.outputs[0], answered.instances[0].request
        return [
            TextOutcome(
                prediction=prediction,
                references=self.references(doc),
                truncated=isinstance(first, Completion) and first.truncated,
                choices=shown,
                labels=labels,
                primed=self.doc_to_prefix(doc),
                prompt=asked.context if isinstance(asked, GenerationRequest) else "",
            )
            for prediction in self._predictions(results)
        ]

    def prediction(self, scorer: Scorer, doc: Doc, answered: Answered, results: Sequence[Any]) -> Any:
        """The text that filters left, or the answer that the scorer read out of it; a list where there are several."""
        read = list(results) if self._scores_itself else self._read(scorer, doc, answered, results)
        return read[0] if len(read) == 1 else read

    def _read(self, scorer: Scorer, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Any]:
        return [scorer.prediction(outcome) for outcome in self.outcomes(doc, answered, results)]

    def _predictions(self, results: Sequence[Any]) -> Sequence[Any]:
        """Each repeat by itself; all together for a task's own metric, where no filter picked one."""
        if not results or not isinstance(results[0], list):
            return results
        whole = all(metric.whole for scorer in self.scoring.scorers for metric in scorer.metrics)
        return [results[0]] if whole else results[0]
