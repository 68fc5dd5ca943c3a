"""ChoiceOrder: the order in which a form shows the choices of its documents."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from multiform.errors import ConfigError, shorten
from multiform.hashing import sha256
from multiform.labels import label_list

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
