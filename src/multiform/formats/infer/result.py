"""The result of inference: the raw mapping behind a task's prompt, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from multiform.errors import ConfigError, DataError
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.compile import FieldMapping
from multiform.formats.dialects.choice_helpers import shuffle_correct_with_distractors
from multiform.prompts.filters import choice_list

#: Hints where nothing can be recovered.
ADD = "write a file that includes this one and gives formats: (say mcqa), doc_to_text: the bare question"
ADD_CHOICES = f"{ADD}, doc_to_choice: the choices' texts"

How = Literal["raw", "template", "documents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The raw mapping behind a prompt, and how it was recovered."""

    mapping: FieldMapping
    #: "raw" where the fields were raw already, "template" or "documents" for what they were recovered from.
    how: How
    #: Texts of the prompt that are not part of the mapping.
    left_out: tuple[str, ...] = ()
    #: Whether the choices are shuffled in each document.
    spread: bool = False

    def described(self) -> str:
        """A sentence for the log."""
        if self.how == "documents":
            return "question and choices are read back out of each document's prompt"
        raw = self.mapping
        choices = raw.choices.choices if isinstance(raw.choices, SpreadChoices) else raw.choices
        answer = raw.answer.index if isinstance(raw.answer, SpreadAnswer) else raw.answer
        fields = {"question": raw.question, "choices": choices, "answer": answer}
        recovered = ", ".join(f"{name} {_one_line(shown(spec))}" for name, spec in fields.items() if spec is not None)
        note = f"; left out {', '.join(map(repr, self.left_out))}" if self.left_out else ""
        spread = "; the right choice always had the same place, so each document has an order of its own"
        return f"doc_to_text is a prompt; recovered {recovered}{note}{spread if self.spread else ''}"

    def spread_out(self) -> Recovered:
        """The same mapping with choices shuffled in each document, where the gold choice always has the same index.

        Without that, a format that shows the choices would let a model find the gold one by its label alone.
        """
        index, choices, question = self.mapping.answer, self.mapping.choices, self.mapping.question
        if not isinstance(index, int) or choices is None:
            return self
        spread = FieldMapping(question, SpreadChoices(question, choices, index), SpreadAnswer(question, choices, index))
        return replace(self, mapping=spread, spread=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why no raw mapping can be recovered."""

    #: The field that stands in the way.
    key: Literal["doc_to_text", "doc_to_choice", "doc_to_target"]
    #: The reason in a few words, the same for all tasks that have it.
    reason: str
    what: str
    hint: str

    def error(self, where: str | None) -> ConfigError:
        """The refusal as an error at the place of the field."""
        return ConfigError(self.what, where=where, hint=self.hint)


def shown(spec: FieldSpec) -> str:
    """A field as it would be written in a task file."""
    if callable(spec):
        inner = spec.func if isinstance(spec, partial) else spec
        return getattr(inner, "__qualname__", None) or str(spec)
    return spec if isinstance(spec, str) else repr(spec)


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


@dataclass(frozen=True, slots=True)
class _Spread:
    """A question and its choices, of which the gold one has the same index in all documents."""

    question: FieldSpec
    choices: FieldSpec
    index: int

    def _order(self, doc: Doc) -> tuple[list[str], int]:
        choices = [str(choice) for choice in choice_list(Field.of(self.choices).read(doc))]
        if not 0 <= self.index < len(choices):
            message = f"doc_to_target is {self.index}, and there are {len(choices)} choices"
            raise DataError(message, hint="check doc_to_target")
        others = [choice for place, choice in enumerate(choices) if place != self.index]
        seed = str(Field.of(self.question).read(doc))
        return shuffle_correct_with_distractors(choices[self.index], others, seed)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.choices}, {self.index})"


class SpreadChoices(_Spread):
    """The choices in an order that depends on the question."""

    def __call__(self, doc: Doc) -> list[str]:
        return self._order(doc)[0]


class SpreadAnswer(_Spread):
    """The index of the gold choice in that order."""

    def __call__(self, doc: Doc) -> int:
        return self._order(doc)[1]
