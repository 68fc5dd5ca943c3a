"""Log-likelihoods of continuations: by a plan where the model can run one, and by batches elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property

from multiform.models.base import Answer
from multiform.models.hf.counters import Counters
from multiform.models.hf.head import Head
from multiform.models.hf.limits import Limits, pass_tokens, prefix_budget
from multiform.models.hf.rows import score_by_rows
from multiform.models.hf.support import Support, support
from multiform.models.hf.tokens import Pair
from multiform.models.hf.tree import score_by_plan, score_plan
from multiform.plan import Cost
from multiform.requests import LLOutput

logger = logging.getLogger("multiform")


class Scorer:
    """Scores pairs with one model.

    `limits` are for batches; plans have their own, which depend on the device. `budget` is the
    model argument `prefix_budget`.
    """

    def __init__(
        self, head: Head, limits: Limits, counters: Counters, *, max_length: int, budget: int | str | None = None
    ) -> None:
        self.head = head
        self.limits = limits
        self.counters = counters
        self.max_length = max_length
        self.given_budget = budget
        self.told = False

    def score(self, pairs: Sequence[Pair]) -> Iterator[Answer[LLOutput]]:
        """The log-likelihood of each pair's continuation, and whether greedy decoding would write it."""
        if self._plannable(pairs):
            yield from score_by_plan(self.head, pairs, size=self.size, budget=self.budget, counters=self.counters)
        else:
            yield from score_by_rows(self.head, pairs, self.limits, self.counters)

    def cost(self, pairs: Sequence[Pair]) -> Cost | None:
        """What scoring costs; None where the model cannot run a plan."""
        if not self._plannable(pairs):
            return None
        filled = [pair for pair in pairs if pair.start < len(pair.tokens)]
        return score_plan(filled, size=self.size, budget=self.budget).cost

    @cached_property
    def support(self) -> Support:
        return support(self.head, self.max_length)

    @cached_property
    def budget(self) -> int:
        """The tokens that may be kept for later passes."""
        return prefix_budget(self.given_budget, self.support.token_bytes, self.head.model.device)

    @property
    def size(self) -> int:
        """The tokens of a pass."""
        size = pass_tokens(self.head.model.device)
        return size if self.head.separable else min(size, self.head.affordable)

    def _plannable(self, pairs: Sequence[Pair]) -> bool:
        """Whether a plan gives the right results; where not, the log says why, once."""
        longest = max((len(pair.tokens) - 1 for pair in pairs), default=0)
        if longest <= self.support.longest:
            return True
        if not self.told:
            logger.warning("prefixes are not shared, which takes longer: %s", self.support.reason)
            self.told = True
        return False
