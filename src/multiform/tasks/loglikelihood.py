"""Tasks that score how likely a text is: after a prompt, or by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.media import media_of
from multiform.requests import LoglikelihoodRequest, Request, RollingRequest
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import LikelihoodOutcome, Outcome
from multiform.tasks.records import Answered
from multiform.tasks.task import Task


class LoglikelihoodTask(Task):
    """How likely is the right answer after the prompt?"""

    OUTPUT_TYPE: ClassVar[OutputType] = "loglikelihood"

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        assert isinstance(ctx, str)
        # Without a format, the target's own text carries the delimiter, as in lm-eval.
        delimiter = self.answer_delimiter(apply_chat_template) if self.config.format is not None else ""
        ctx = self.with_media(ctx, doc)
        return [LoglikelihoodRequest(str(ctx), delimiter + self.target_text(doc), media_of(ctx))]

    def target_text(self, doc: Doc) -> str:
        """The text that is scored, the first of several."""
        target = self.doc_to_target(doc)
        target = target[0] if isinstance(target, list) and target else target
        if target is None or target == "":
            raise DataError("there is no answer to score", where=self.config.where("doc_to_target"), hint="check it")
        return str(target)

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        request = answered.instances[0].request
        assert isinstance(request, LoglikelihoodRequest)
        return [self._outcome(request.continuation, *results[0])]

    def _outcome(self, text: str, loglikelihood: float, is_greedy: bool = False) -> LikelihoodOutcome:
        return LikelihoodOutcome(
            loglikelihood=loglikelihood,
            is_greedy=is_greedy,
            text=text,
            words=self.count_words(text),
            bytes=self.count_bytes(text),
        )


class RollingTask(LoglikelihoodTask):
    """How likely is a document's whole text?"""

    OUTPUT_TYPE: ClassVar[OutputType] = "loglikelihood_rolling"

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **options: Any) -> str:  # type: ignore[override]
        """Nothing: a text stands by itself, and no examples are drawn for it."""
        return ""

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        return [RollingRequest(self.target_text(doc))]

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        return [output.loglikelihood for output in outputs]

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        return [self._outcome(self.target_text(doc), results[0])]
