"""Tasks in which the model writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from multiform.answers import label_list
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.requests import Completion, GenerationRequest, Instance
from multiform.scoring.outcome import TextOutcome
from multiform.tasks.task import ChatTemplate, Task


class GenerateTask(Task):
    """One request for each document: what does the model write after the prompt?"""

    OUTPUT_TYPE = "generate_until"

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
        self.references(doc)  # a document whose answer does not resolve is an error before the model is asked
        return [Instance(doc_id, 0, GenerationRequest.of(ctx, self.config.generation_kwargs))]

    def references(self, doc: Doc) -> tuple[str, ...]:
        """The texts that count as right."""
        target = self.doc_to_target(doc)
        targets = target if isinstance(target, list) else [target]
        if self.config.format is None and self.config.doc_to_choice is not None:
            choices = self.doc_to_choice(doc)
            targets = [choices[t] if isinstance(t, int) and 0 <= t < len(choices) else t for t in targets]
        if not targets or any(t is None for t in targets):
            raise DataError("there is no answer", where=self.config.where("doc_to_target"), hint="check doc_to_target")
        return tuple(str(t) for t in targets)

    def outcome(self, doc: Doc, instances: Sequence[Instance], outputs: Sequence[Any]) -> TextOutcome:
        first = outputs[0]
        form = self.config.format
        shown: tuple[str, ...] = ()
        labels: tuple[str, ...] = ()
        if form is not None and form.shows_choices and self.config.mapping.choices is not None:
            shown = tuple(self.reader.raw_choices(doc))
            labels = tuple(label_list(len(shown), form.choice_labels)) if form.choice_labels else ()
        return TextOutcome(
            prediction=first.text if isinstance(first, Completion) else first,
            references=self.references(doc),
            truncated=isinstance(first, Completion) and first.truncated,
            choices=shown,
            labels=labels,
            primed=self.doc_to_prefix(doc),
        )

    def _filtered(self, pipeline: Callable[..., list[Any]], doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        texts = [output.text for output in outputs]
        made = pipeline(texts, doc)
        truncated = outputs[0].truncated
        return [Completion(text, truncated) if isinstance(text, str) else text for text in made]
