"""Kept prefixes: keys and values that stay in memory from one chunk of a run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from multiform.models.torch.attention import KVCache
from multiform.models.torch.plan import Span
from multiform.models.torch.tree import Tokens, common_prefix_length


class KeptPrefix(NamedTuple):
    """The tokens of a prefix, and their keys and values."""

    tokens: Tokens
    cache: KVCache


class KeptPrefixes:
    """Prefixes that recur, such as few-shot examples: at most `most` tokens of them, those used last.

    Prefixes in use are not dropped for others.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: list[KeptPrefix] = []
        self._in_use: list[KeptPrefix] = []

    @property
    def size(self) -> int:
        """The tokens of all kept prefixes."""
        return sum(len(prefix.tokens) for prefix in self._kept)

    def entries(self) -> list[KeptPrefix]:
        return list(self._kept)

    def use(self, prefixes: Iterable[KeptPrefix]) -> None:
        """Hold these prefixes until the next call, and no others."""
        self._in_use = list(prefixes)
        self._kept.sort(key=self._is_in_use)

    def _is_in_use(self, prefix: KeptPrefix) -> bool:
        return any(prefix is each for each in self._in_use)

    def longest(self, tokens: Tokens) -> tuple[int, KVCache | None]:
        """The prefix that has most tokens in common with a sequence: how many, and its keys and values."""
        lengths = [common_prefix_length(prefix.tokens, tokens) for prefix in self._kept]
        best = max(range(len(lengths)), key=lengths.__getitem__, default=None)
        if best is None or not lengths[best]:
            return 0, None
        length = lengths[best]
        self._kept.append(prefix := self._kept.pop(best))
        return length, prefix.cache

    def add(self, tokens: Tokens, cache: KVCache, spans: Sequence[Span]) -> None:
        """Keep the positions of a cache that are in the spans: a prefix with these tokens.

        It takes the place of those that it begins with. If there is no room for it, it is not kept.
        """
        if any(prefix.tokens[: len(tokens)] == tokens for prefix in self._kept):
            return
        kept = [prefix for prefix in self._kept if prefix.tokens != tokens[: len(prefix.tokens)]]
        room = self.most - len(tokens)
        while kept and sum(len(prefix.tokens) for prefix in kept) > room:
            if self._is_in_use(kept[0]):
                return
            del kept[0]
        if room >= 0:
            self._kept = [*kept, KeptPrefix(tokens, cache.copy(spans))]

    def clear(self) -> None:
        self._kept, self._in_use = [], []
