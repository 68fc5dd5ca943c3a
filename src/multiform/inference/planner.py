"""What a model's plans may do: how large a pass is, how much is kept, and for which requests plans are right."""

from __future__ import annotations

import logging
from functools import cached_property

from multiform.inference.compatibility import Support, can_decode, support
from multiform.inference.device import device_of
from multiform.inference.forward import Passes
from multiform.inference.limits import pass_tokens, prefix_budget
from multiform.inference.lm_head import Head

logger = logging.getLogger("multiform")


class Planner:
    """The limits of plans on one model; `budget` is the model argument `prefix_budget`."""

    def __init__(self, head: Head, *, budget: int | str | None = None) -> None:
        self.head = head
        self.given_budget = budget
        self.told = False

    @cached_property
    def support(self) -> Support:
        return support(self.head)

    @cached_property
    def passes(self) -> Passes:
        return Passes(self.head, self.support.way)

    @cached_property
    def decodes(self) -> bool:
        """Whether texts in the making can share prefixes."""
        return can_decode(self.passes)

    @cached_property
    def budget(self) -> int:
        """The tokens that may be kept for later passes."""
        return prefix_budget(self.given_budget, self.support.token_bytes, device_of(self.head.model))

    @cached_property
    def room(self) -> int:
        """The tokens that texts in the making may have together, by the memory that is free."""
        return prefix_budget(None, self.support.token_bytes, device_of(self.head.model))

    @property
    def size(self) -> int:
        """The tokens of a pass."""
        size = pass_tokens(device_of(self.head.model))
        return size if self.head.separable else min(size, self.head.affordable)

    def can_score(self, longest: int) -> bool:
        """Whether plans give the right results for sequences of so many tokens; where not, the log says why, once.

        With a `prefix_budget` of 0 nothing is shared: sequences are read in batches, as lm-eval reads them.
        """
        if self.given_budget in (0, "0"):
            return False
        return longest <= self.support.longest or self._tell(self.support.reason)

    def can_write(self, longest: int) -> bool:
        """Whether texts of so many tokens, with their prompts, can share prefixes."""
        if longest > self.support.longest:
            return self._tell(self.support.reason)
        return self.decodes or self._tell("its attention is of a special kind")

    def _tell(self, reason: str) -> bool:
        if not self.told:
            logger.warning("prefixes are not shared, which takes longer: %s", reason)
            self.told = True
        return False
