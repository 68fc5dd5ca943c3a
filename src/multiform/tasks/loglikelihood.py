"""Tasks that score how likely a text is: after a prompt, or by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.requests import Instance, LLOutput, LoglikelihoodRequest, RollingRequest
from multiform.scoring.outcome import LikelihoodOutcome
from multiform.tasks.task import ChatTemplate, Task


class LoglikelihoodTask(Task):
    """One request for each document: how likely is the right answer after the prompt?"""

    OUTPUT_TYPE: ClassVar[OutputType] = "loglikelihood"

    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str,
        *,
        doc_id: int,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
    ) -> list[Instance]:
        # Without a format, the target's own text carries the delimiter, as in lm-eval.
        delimiter = self.answer_delimiter(apply_chat_template) if self.config.format is not None else ""
        return [Instance(doc_id, 0, LoglikelihoodRequest(ctx, delimiter + self.target_text(doc)))]

    def target_text(self, doc: Doc) -> str:
        """The text that is scored, the first of several."""
        target = self.doc_to_target(doc)
        target = target[0] if isinstance(target, list) and target else target
        if target is None or target == "":
            raise DataError("there is no answer to score", where=self.config.where("doc_to_target"), hint="check it")
        return str(target)

    def outcome(self, doc: Doc, instances: Sequence[Instance], outputs: Sequence[LLOutput]) -> LikelihoodOutcome:
        request = instances[0].request
        assert isinstance(request, LoglikelihoodRequest)
        return LikelihoodOutcome(
            loglikelihood=outputs[0].loglikelihood, is_greedy=outputs[0].is_greedy, text=request.continuation
        )


class RollingTask(LoglikelihoodTask):
    """One request for each document: how likely is its whole text?"""

    OUTPUT_TYPE = "loglikelihood_rolling"

    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str,
        *,
        doc_id: int,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
    ) -> list[Instance]:
        return [Instance(doc_id, 0, RollingRequest(self.target_text(doc)))]

    def outcome(self, doc: Doc, instances: Sequence[Instance], outputs: Sequence[LLOutput]) -> LikelihoodOutcome:
        request = instances[0].request
        assert isinstance(request, RollingRequest)
        return LikelihoodOutcome(loglikelihood=outputs[0].loglikelihood, is_greedy=False, text=request.text)
