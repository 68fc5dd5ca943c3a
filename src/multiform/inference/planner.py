"""The planner: how large forward passes are, how much stays cached, and which requests can share prefixes."""

from __future__ import annotations

import logging
from functools import cached_property

from multiform.inference.compatibility import PrefixSupport, can_share_in_decode, prefix_support
from multiform.inference.device import device_of
from multiform.inference.forward import Forward
from multiform.inference.limits import pass_tokens, prefix_budget
from multiform.inference.lm_head import LMHead

logger = logging.getLogger("multiform")


class Planner:
    """The limits of plans on one model; `budget` is the model argument `prefix_budget`."""

    def __init__(self, head: LMHead, *, budget: int | str | None = None) -> None:
        self.head = head
        self.prefix_budget = budget
        self._has_warned = False

    @cached_property
    def support(self) -> PrefixSupport:
        return prefix_support(self.head)

    @cached_property
    def forward(self) -> Forward:
        return Forward(self.head, self.support.mode)

    @cached_property
    def shares_in_decode(self) -> bool:
        """Whether sequences being decoded can share prefixes."""
        return can_share_in_decode(self.forward)

    @cached_property
    def budget(self) -> int:
        """The tokens that may stay cached between forward passes."""
        return prefix_budget(self.prefix_budget, self.support.token_bytes, device_of(self.head.model))

    @cached_property
    def decode_tokens(self) -> int:
        """The tokens that all sequences being decoded may have together, by the memory that is free."""
        return prefix_budget(None, self.support.token_bytes, device_of(self.head.model))

    @property
    def pass_size(self) -> int:
        """The tokens in a forward pass."""
        size = pass_tokens(device_of(self.head.model))
        return size if self.head.separable else min(size, self.head.max_tokens)

    def can_plan_scoring(self, longest: int) -> bool:
        """Whether sequences of up to that many tokens can be scored by plan; where not, the log says why, once.

        With a `prefix_budget` of 0 nothing is shared: sequences are scored in batches, as lm-eval scores them.
        """
        if self.prefix_budget in (0, "0"):
            return False
        return longest <= self.support.max_length or self._warn(self.support.reason)

    def can_plan_decoding(self, longest: int) -> bool:
        """Whether sequences of up to that many tokens, prompts included, can share prefixes while being decoded."""
        if longest > self.support.max_length:
            return self._warn(self.support.reason)
        return self.shares_in_decode or self._warn("its attention is of a special kind")

    def _warn(self, reason: str) -> bool:
        if not self._has_warned:
            logger.warning("prefixes are not shared, which takes longer: %s", reason)
            self._has_warned = True
        return False
