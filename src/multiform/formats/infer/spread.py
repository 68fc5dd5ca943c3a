"""Choices of which the right one always has the same place, in an order that the question decides."""

from __future__ import annotations

from dataclasses import dataclass

from multiform.errors import DataError
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.dialects.choice_helpers import shuffle_correct_with_distractors
from multiform.jinja import choice_list


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
