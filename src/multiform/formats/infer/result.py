"""What there is to say about a task's prompt: the raw mapping behind it, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from multiform.errors import ConfigError, DataError
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.compile import FieldMapping
from multiform.formats.dialects.choice_helpers import shuffle_correct_with_distractors
from multiform.jinja import choice_list

#: What to do where nothing can be recovered.
ADD = "write a file that includes this one and gives formats: (say mcqa), doc_to_text: the bare question"
ADD_CHOICES = f"{ADD}, doc_to_choice: the choices' texts"

How = Literal["raw", "template", "documents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The raw mapping behind a prompt, and how it was found."""

    mapping: FieldMapping
    #: The mapping was raw already, was read from the template, or is read from each document's prompt.
    how: How
    #: What the prompt says and the mapping does not.
    left_out: tuple[str, ...] = ()
    #: Whether the choices are put in another order in each document.
    spread: bool = False

    def described(self) -> str:
        """One sentence for a log."""
        if self.how == "documents":
            return "question and choices are read back out of each document's prompt"
        raw = self.mapping
        choices = raw.choices.choices if isinstance(raw.choices, SpreadChoices) else raw.choices
        answer = raw.answer.index if isinstance(raw.answer, SpreadAnswer) else raw.answer
        fields = {"question": raw.question, "choices": choices, "answer": answer}
        found = ", ".join(f"{name} {_one_line(shown(spec))}" for name, spec in fields.items() if spec is not None)
        left = f"; left out {', '.join(map(repr, self.left_out))}" if self.left_out else ""
        spread = "; the right choice always had the same place, so each document has an order of its own"
        return f"doc_to_text is a prompt; recovered {found}{left}{spread if self.spread else ''}"

    def spread_out(self) -> Recovered:
        """The same with choices in another order in each document, where the right one always has the same place.

        A format that shows such choices would have a model find the right one by its label alone.
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
    """A field as a task file would write it."""
    if callable(spec):
        inner = spec.func if isinstance(spec, partial) else spec
        return getattr(inner, "__qualname__", None) or str(spec)
    return spec if isinstance(spec, str) else repr(spec)


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


@dataclass(frozen=True, slots=True)
class _Spread:
    """A question, its choices, and where the right one is in all documents."""

    question: FieldSpec
    choices: FieldSpec
    index: int

    def _order(self, doc: Doc) -> tuple[list[str], int]:
        choices = [str(choice) for choice in choice_list(Field.of(self.choices).read(doc))]
        if not 0 <= self.index < len(choices):
            what = f"doc_to_target is {self.index}, and there are {len(choices)} choices"
            raise DataError(what, hint="check doc_to_target")
        others = [choice for place, choice in enumerate(choices) if place != self.index]
        seed = str(Field.of(self.question).read(doc))
        return shuffle_correct_with_distractors(choices[self.index], others, seed)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.choices}, {self.index})"


class SpreadChoices(_Spread):
    """The choices in their new order."""

    def __call__(self, doc: Doc) -> list[str]:
        return self._order(doc)[0]


class SpreadAnswer(_Spread):
    """Where the right choice is in the new order."""

    def __call__(self, doc: Doc) -> int:
        return self._order(doc)[1]
