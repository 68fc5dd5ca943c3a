"""Variations: a format's label with choices on some axes, ``mcqa[labels=roman]``, and orders of the choices."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from multiform.errors import ConfigError, shorten
from multiform.hashing import sha256, short_hash
from multiform.labels import label_list

_DRAWN = re.compile(r"(?P<label>.*?)~(?P<number>\d+)", re.DOTALL)
_HINT = "write e.g. mcqa[labels=roman,sep=space]"


@dataclass(frozen=True, slots=True)
class Variation:
    """The label of a format, empty for the format that a task has by default, and a value for some axes.

    >>> variation = Variation.parse("mcqa[labels=roman,wrap=[x]]")
    >>> variation.label, dict(variation.choices)
    ('mcqa', {'labels': 'roman', 'wrap': '[x]'})
    >>> str(variation), str(Variation("mcqa"))
    ('mcqa[labels=roman,wrap=[x]]', 'mcqa')
    """

    label: str
    choices: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Variation:
        """The variation that a text names."""
        label, bracket, rest = text.partition("[")
        if not bracket:
            return cls(text)
        if not rest.endswith("]") or not balanced(text):
            raise ConfigError(f"the brackets of '{text}' do not close", hint=_HINT)
        choices: dict[str, str] = {}
        for part in split_outside(rest[:-1], ","):
            axis, equals, value = (word.strip() for word in part.partition("="))
            if not equals or not axis or not value:
                raise ConfigError(f"expected axis=value in '{text}', got '{part}'", hint=_HINT)
            if axis in choices:
                raise ConfigError(f"'{text}' has two values of {axis}", hint="keep one of them")
            choices[axis] = value
        return cls(label.strip(), choices)

    @property
    def hash(self) -> str:
        """A short hash of the canonical text, the same in every run and on every machine."""
        return short_hash(str(self))

    def changed(self, **choices: str) -> Variation:
        """The variation with other values on some axes."""
        return Variation(self.label, {**self.choices, **choices})

    def __str__(self) -> str:
        choices = ",".join(f"{axis}={value}" for axis, value in self.choices.items())
        return f"{self.label}[{choices}]" if choices else self.label


def drawn_number(label: str) -> tuple[str, int] | None:
    """The label and the number of ``label~16``, which stands for 16 variations; None for other labels.

    >>> drawn_number("mcqa[labels=roman]~16"), drawn_number("mcqa")
    (('mcqa[labels=roman]', 16), None)
    """
    match = _DRAWN.fullmatch(label)
    return None if match is None else (match["label"].strip(), int(match["number"]))


def split_outside(text: str, separator: str) -> list[str]:
    """The parts between separators, not counting those inside square brackets; parts without text are left out.

    >>> split_outside("a@mcqa[labels=roman,sep=space],b", ",")
    ['a@mcqa[labels=roman,sep=space]', 'b']
    """
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth = max(0, depth + (character == "[") - (character == "]"))
        if character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def balanced(text: str) -> bool:
    """Whether every square bracket is closed."""
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return False
    return depth == 0


_NUMBERED = re.compile(r"(shuffle|rotate):(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class ChoiceOrder:
    """How choices are ordered: `reverse`, `rotate:N`, `shuffle:SEED`, or a permutation such as `bdac`.

    >>> order = ChoiceOrder.parse("rotate:1")
    >>> [order.permutation(4, ""), order.permutation(3, "")]
    [(1, 2, 3, 0), (1, 2, 0)]
    """

    name: str

    @classmethod
    def parse(cls, text: str) -> ChoiceOrder | None:
        """The order of that name; None for `original` and for other names of the same."""
        letters = "".join(label_list(len(text), "lower")) if len(text) <= 26 else ""
        permutes = len(text) > 1 and sorted(text) == list(letters)
        if not (text in ("original", "reverse") or _NUMBERED.fullmatch(text) or permutes):
            hint = "write original, reverse, rotate:1, shuffle:7, or a permutation such as bdac"
            raise ConfigError(f"no order of choices is called {shorten(text)}", where="order", hint=hint)
        return None if text in ("original", "rotate:0", letters) else cls(text)

    def permutation(self, number: int, key: str) -> tuple[int, ...]:
        """For each position, the index of the choice that stands there.

        A shuffle depends on its seed and on `key`, a text of the document, so that the order and the number of
        documents do not matter. Of a permutation of more choices than there are, those that there are keep their
        order; with fewer it is an error.

        >>> ChoiceOrder("dbca").permutation(3, "")
        (1, 2, 0)
        """
        kind, _, argument = self.name.partition(":")
        if kind == "reverse":
            return tuple(reversed(range(number)))
        if kind == "rotate":
            return tuple((position + int(argument)) % number for position in range(number))
        if kind == "shuffle":
            indexes = list(range(number))
            random.Random(int(sha256(f"{argument} {key}"), 16)).shuffle(indexes)
            return tuple(indexes)
        if number > len(self.name):
            message = f"a document has {number} choices, and the order {self.name} is of {len(self.name)}"
            raise ConfigError(
                message, where="order", hint="name all positions, or use reverse, rotate:N or shuffle:SEED"
            )
        indexes = [ord(letter) - ord("a") for letter in self.name]
        return tuple(index for index in indexes if index < number)


def moved(gold: int | list[int], permutation: Sequence[int]) -> int | list[int]:
    """The positions of the right choices once they are permuted.

    >>> moved(0, (1, 2, 0)), moved([0, 1], (1, 2, 0))
    (2, [0, 2])
    """
    positions = {index: position for position, index in enumerate(permutation)}
    return sorted(positions[index] for index in gold) if isinstance(gold, list) else positions[gold]
