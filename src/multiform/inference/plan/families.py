"""Families: sequences that begin alike, for work that keeps one prefix for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from multiform.inference.plan.tree import Tokens, common


def families(sequences: Sequence[Tokens]) -> list[int]:
    """Of each sequence, which are sorted, the length of the prefix that it shares with its family.

    A family within another one gets a longer prefix of its own where that saves more tokens than
    the prefix has. At least one token of every sequence stays outside its prefix.

    >>> from array import array
    >>> families([array("i", [1, 2, 3, end]) for end in range(4)])
    [3, 3, 3, 3]
    """
    prefixes = [0] * len(sequences)
    shares = [0, *(min(common(a, b), len(a) - 1, len(b) - 1) for a, b in pairwise(sequences))]
    pending = [(0, len(sequences), 0)]
    while pending:
        first, last, prefix = pending.pop()
        if last - first < 2:
            prefixes[first:last] = [prefix] * (last - first)
            continue
        shared = min(shares[first + 1 : last])
        if (last - first - 1) * (shared - prefix) > shared:
            prefix = shared
        cuts = [first, *(index for index in range(first + 1, last) if shares[index] == shared), last]
        pending.extend((start, stop, prefix) for start, stop in pairwise(cuts))
    return prefixes
