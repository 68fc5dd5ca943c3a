"""Tasks that rank choices by their likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from multiform.answers import gold_index
from multiform.errors import ConfigError, DataError, shorten
from multiform.fields import Doc
from multiform.media import media_of
from multiform.requests import Instance, LLOutput, LoglikelihoodRequest, Request
from multiform.scoring.outcome import ChoiceOutcome, Outcome
from multiform.tasks.records import Answered
from multiform.tasks.task import Task


class MultipleChoiceTask(Task):
    """One request for each choice: how likely is it after the prompt?

    With several inputs it is the other way round: the choices are prompts that share one ending.
    """

    OUTPUT_TYPE = "multiple_choice"

    @cached_property
    def has_multiple_inputs(self) -> bool:  # type: ignore[override]
        """Said so by the task, or found out as lm-eval does: the question of the first document is an index."""
        if self.config.multiple_inputs and self.config.format is not None:
            what, place = "a format lays out one question, not several", self.config.where("multiple_inputs")
            raise ConfigError(what, where=place, hint="give the question and its choices, or run without a format")
        if self.config.multiple_inputs:
            return True
        if self.config.format is not None or self.config.doc_to_choice is None:
            return False
        return isinstance(self.doc_to_text(self.eval_docs[0]), int)

    def questions(self, doc: Doc) -> list[str]:
        if not self.has_multiple_inputs:
            return super().questions(doc)
        if not self.config.multiple_inputs:
            return self.doc_to_choice(doc)
        inputs = self.doc_to_text(doc)
        if not isinstance(inputs, list) or not inputs:
            what = f"multiple_inputs needs a list of inputs, got {shorten(inputs)}"
            raise DataError(what, where=self.config.where("doc_to_text"), hint="return one text for each choice")
        return [str(text) for text in inputs]

    def ending(self, doc: Doc) -> str:
        """What all inputs share: the task's only choice, or its target where the choices are the inputs."""
        return self.doc_to_choice(doc)[0] if self.config.multiple_inputs else str(self.doc_to_target(doc))

    def shot_question(self, doc: Doc) -> str:
        if not self.has_multiple_inputs:
            return super().shot_question(doc)
        if self.config.multiple_inputs:
            return self.questions(doc)[self.gold(doc)[0]]
        index: int = self.doc_to_text(doc, self._fewshot.doc_to_text)
        return self.doc_to_choice(doc, self._fewshot.doc_to_choice)[index]

    def shot_answer(self, doc: Doc) -> str:
        return self.ending(doc) if self.has_multiple_inputs else super().shot_answer(doc)

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        delimiter = self.answer_delimiter(apply_chat_template)
        if self.config.format is not None:
            self.gold(doc)  # a document whose answer does not resolve is an error before the model is asked
        if isinstance(ctx, list):
            pairs = [(self.with_media(context, doc), delimiter + self.ending(doc)) for context in ctx]
        else:
            ctx = self.with_media(ctx, doc)
            pairs = [(ctx, delimiter + choice) for choice in self.doc_to_choice(doc)]
        if self._wants_mutual_info:
            pairs += [("", continuation) for _, continuation in pairs]
        return [LoglikelihoodRequest(str(context), ending, media_of(context)) for context, ending in pairs]

    @property
    def _wants_mutual_info(self) -> bool:
        wanted = any(metric.name == "acc_mutual_info" for scorer in self.scoring.scorers for metric in scorer.metrics)
        if wanted and self.has_multiple_inputs:
            what = "acc_mutual_info is not defined for several inputs"
            raise ConfigError(what, where=self.config.where("metric_list"), hint="use acc")
        return wanted

    def doubt(self, doc: Doc) -> DataError | None:
        """An answer that is none of the choices; without a format, such a document counts as wrong, as in lm-eval."""
        if self.config.format is not None or self._scores_itself:
            return None
        choices, target = self._choices_and_target(doc)
        try:
            self._indexes(target, choices)
        except DataError as error:
            return error
        return None

    def gold(self, doc: Doc) -> tuple[int, ...]:
        """The indexes of the right choices; an answer that is none of them is an error."""
        choices, target = self._choices_and_target(doc)
        return self._indexes(target, choices)

    def scored_gold(self, doc: Doc) -> tuple[int, ...]:
        """The indexes of the right choices, without answers that are none of them, where there is no format."""
        if self.config.format is not None:
            return self.gold(doc)
        choices, target = self._choices_and_target(doc)
        try:
            return self._indexes(target, choices)
        except DataError:
            return known_indexes(target, choices) if isinstance(target, list | tuple) else ()

    def _indexes(self, target: Any, choices: Sequence[str]) -> tuple[int, ...]:
        if isinstance(target, str) and target in choices:
            return (choices.index(target),)
        try:
            index = gold_index(target, choices)
        except DataError as error:
            if self._by_question:
                what = f"the question is the whole number {shorten(target)}, so it is the index of the right choice, "
                what += f"and there are {len(choices)} choices"
                hint = (
                    'where it is meant as text, write more than the number, e.g. doc_to_text: "Question: {{question}}"'
                )
                raise DataError(what, where=self.config.where("doc_to_text"), hint=hint) from error
            raise DataError(error.what, where=self.config.where("doc_to_target"), hint=error.hint) from error
        return tuple(index) if isinstance(index, list) else (index,)

    def _choices_and_target(self, doc: Doc) -> tuple[Sequence[str], Any]:
        choices: Sequence[str] = self.questions(doc) if self.has_multiple_inputs else self.doc_to_choice(doc)
        return choices, self.doc_to_text(doc) if self._by_question else self.doc_to_target(doc)

    @property
    def _by_question(self) -> bool:
        """Whether `doc_to_text` gives the index of the right choice, and the choices are the prompts."""
        return self.has_multiple_inputs and not self.config.multiple_inputs

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        choices = self.questions(doc) if self.has_multiple_inputs else self.doc_to_choice(doc)
        number = len(choices)
        lengths = [output.tokens for output in answered.outputs[:number] if isinstance(output, LLOutput)]
        return [
            ChoiceOutcome(
                loglikelihoods=tuple(ll for ll, _ in results[:number]),
                greedy=tuple(greedy for _, greedy in results[:number]),
                choices=tuple(choices),
                gold=self.scored_gold(doc),
                tokens=tuple(n for n in lengths if n is not None) if None not in lengths else (),
                unconditional=tuple(ll for ll, _ in results[number:]),
                scored=_continuations(answered.instances[:number]),
                texts=self._texts(doc),
            )
        ]

    def _texts(self, doc: Doc) -> tuple[str, ...]:
        """What the choices say, where a format has labels scored."""
        form = self.config.format
        return tuple(self.reader.raw_choices(doc)) if form is not None and form.scored == "labels" else ()


def _continuations(instances: Sequence[Instance]) -> tuple[str, ...]:
    requests = [instance.request for instance in instances]
    return tuple(request.continuation for request in requests if isinstance(request, LoglikelihoodRequest))


def known_indexes(answers: Sequence[Any], choices: Sequence[str]) -> tuple[int, ...]:
    """The indexes of those answers that are among the choices.

    >>> known_indexes([1, 7, "C"], ["x", "y", "z"])
    (1, 2)
    """
    found: list[int] = []
    for answer in answers:
        try:
            index = gold_index(answer, choices)
        except DataError:
            continue
        found += index if isinstance(index, list) else [index]
    return tuple(found)
