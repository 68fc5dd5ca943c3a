"""Tasks that rank choices by their likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.answers import gold_index
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.requests import Instance, LLOutput, LoglikelihoodRequest
from multiform.scoring.outcome import ChoiceOutcome
from multiform.tasks.task import ChatTemplate, Task


class MultipleChoiceTask(Task):
    """One request for each choice: how likely is it after the prompt?"""

    OUTPUT_TYPE = "multiple_choice"

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
        delimiter = self.answer_delimiter(apply_chat_template)
        self.gold(doc)  # a document whose answer does not resolve is an error before the model is asked
        return [
            Instance(doc_id, idx, LoglikelihoodRequest(ctx, delimiter + choice))
            for idx, choice in enumerate(self.doc_to_choice(doc))
        ]

    def gold(self, doc: Doc) -> tuple[int, ...]:
        """The indexes of the right choices."""
        target, choices = self.doc_to_target(doc), self.doc_to_choice(doc)
        if isinstance(target, str) and target in choices:
            return (choices.index(target),)
        try:
            index = gold_index(target, choices)
        except DataError as error:
            raise DataError(error.what, where=self.config.where("doc_to_target"), hint=error.hint) from error
        return tuple(index) if isinstance(index, list) else (index,)

    def outcome(self, doc: Doc, instances: Sequence[Instance], outputs: Sequence[LLOutput]) -> ChoiceOutcome:
        return ChoiceOutcome(
            loglikelihoods=tuple(output.loglikelihood for output in outputs),
            greedy=tuple(output.is_greedy for output in outputs),
            choices=tuple(self.doc_to_choice(doc)),
            gold=self.gold(doc),
        )
