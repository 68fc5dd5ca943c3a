"""Design: how a run multiplies the forms that it is given."""

from __future__ import annotations

import re
from dataclasses import dataclass

from multiform.errors import UsageError, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The variations, orders of choices and draws of few-shot examples of a run.

    >>> Design(choice_order="sorted")
    Traceback (most recent call last):
    multiform.errors.UsageError: choice_order: expected original, shuffle:SEED, cyclic or all, got 'sorted'; ...
    """

    #: The seed of the variations that ``format~N`` draws; None draws other ones each time.
    seed: int | None = 0
    #: The number of few-shot examples of the run: without any, nothing about them is varied.
    num_fewshot: int | None = None
    #: `original`, `shuffle:SEED`, `cyclic` (a form for each rotation) or `all` (one for each permutation).
    choice_order: str | None = None
    #: How many forms with other few-shot examples.
    fewshot_draws: int = 1

    def __post_init__(self) -> None:
        order = self.choice_order
        if order is not None and not re.fullmatch(r"original|shuffle:\d+|cyclic|all", order):
            message = f"expected original, shuffle:SEED, cyclic or all, got {shorten(order)}"
            raise UsageError(message, where="choice_order", hint="give e.g. choice_order=cyclic or shuffle:7")
        if self.fewshot_draws < 1:
            message = f"expected a whole number of 1 or more, got {self.fewshot_draws}"
            raise UsageError(message, where="fewshot_draws", hint="give e.g. fewshot_draws=5")
