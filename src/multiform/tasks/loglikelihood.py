"""Tasks that score how likely a text is: after a prompt, or by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.media import media_of
from multiform.requests import LLOutput, LoglikelihoodRequest, Request, RollingRequest
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import LikelihoodOutcome, Outcome
from multiform.tasks.records import Answered
from multiform.tasks.task import Task


class LoglikelihoodTask(Task):
    """How likely is the right answer after the prompt?"""

    OUTPUT_TYPE: ClassVar[OutputType] = "loglikelihood"
    _asks_for: ClassVar[type[Request]] = LoglikelihoodRequest

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        assert isinstance(ctx, str)
        # Without a format, the target's own text carries the delimiter, as in lm-eval.
        delimiter = self.answer_delimiter(apply_chat_template) if self.config.format is not None else ""
        ctx = self.with_media(ctx, doc)
        return [LoglikelihoodRequest(str(ctx), delimiter + self.target_text(doc), media_of(ctx))]

    def target_text(self, doc: Doc) -> str:
        """The text that is scored, the first of several."""
        target = self.needed(self.doc_to_target(doc), "doc_to_target")
        target = target[0] if isinstance(target, list) and target else target
        if target is None or target == "":
            raise DataError("there is no answer to score", where=self.config.where("doc_to_target"), hint="check it")
        return str(target)

    def check_asked(self, doc: Doc, requests: Sequence[Request]) -> None:
        if self._compares and [type(request) for request in requests] != [self._asks_for]:
            made = ", ".join(type(request).__name__ for request in requests)
            what = f"construct_requests made {made}, and the metrics are of one {self._asks_for.__name__}"
            raise DataError(what, where=self.name, hint="make one, set another output_type, or give process_results")

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
    _asks_for: ClassVar[type[Request]] = RollingRequest

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **options: Any) -> str:  # type: ignore[override]
        """Nothing: a text stands by itself, and no examples are drawn for it."""
        return ""

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        return [RollingRequest(self.target_text(doc))]

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        if not all(isinstance(output, LLOutput) for output in outputs):
            return super().filtered(pipeline, doc, outputs)
        return [output.loglikelihood for output in outputs]

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        request = answered.instances[0].request
        return [self._outcome(request.text if isinstance(request, RollingRequest) else "", results[0])]
