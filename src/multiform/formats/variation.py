"""Variation: a format's label with choices on some axes, such as ``mcqa[labels=roman,wrap=(x)]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from multiform.errors import ConfigError
from multiform.hashing import short_hash

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
