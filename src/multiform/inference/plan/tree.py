"""The token prefix tree of a set of sequences.

In sorted order every sequence begins with what it has in common with the one before it, so the
tree is a sorted list: a branch adds the tokens after its shared part, and following the list is a
walk through the tree, depth first.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

#: Token ids in four bytes each; a list of ints needs nine times that, and runs hold millions.
Tokens: TypeAlias = "array[int]"


class Read(NamedTuple):
    """The output of the model at the depths from `start` to `stop` that a request needs."""

    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A distinct sequence, which has its first `shared` tokens in common with the branch before.

    `members` are the requests that have this sequence. `reads` are the outputs needed at the
    depths that the branch adds to the tree, by its own requests and by those of later branches.
    """

    tokens: Tokens
    shared: int
    members: tuple[int, ...]
    reads: tuple[Read, ...]

    @property
    def added(self) -> int:
        """How many nodes the branch adds to the tree."""
        return len(self.tokens) - self.shared


def grow(sequences: Sequence[Tokens], wanted: Sequence[int]) -> list[Branch]:
    """The tree of the sequences; of each the outputs are needed from depth `wanted` to its end.

    >>> from array import array
    >>> tree = grow([array("i", [1, 2, 3]), array("i", [1, 2]), array("i", [1, 2, 4])], [1, 1, 1])
    >>> [(branch.tokens.tolist(), branch.shared) for branch in tree]
    [([1, 2], 0), ([1, 2, 3], 2), ([1, 2, 4], 2)]
    >>> [(read.request, read.start, read.stop) for read in tree[0].reads]
    [(1, 1, 2), (0, 1, 2), (2, 1, 2)]
    """
    distinct: list[tuple[Tokens, list[int]]] = []
    for index in sorted(range(len(sequences)), key=sequences.__getitem__):
        if not distinct or distinct[-1][0] != sequences[index]:
            distinct.append((sequences[index], []))
        distinct[-1][1].append(index)
    shares = [0, *(common(a, b) for (a, _), (b, _) in pairwise(distinct))]
    reads: list[list[Read]] = [[] for _ in distinct]
    path: list[tuple[int, int]] = []  # where on the way to the current branch another one takes over: depth, branch
    for number, ((tokens, members), shared) in enumerate(zip(distinct, shares, strict=False)):
        while path and path[-1][0] >= shared:
            path.pop()
        path.append((shared, number))
        for member in members:
            stop = len(tokens)
            for depth, owner in reversed(path):
                start = max(depth, wanted[member])
                if start < stop:
                    reads[owner].append(Read(member, start, stop))
                stop = min(stop, depth)
                if wanted[member] >= depth:
                    break
    return [
        Branch(tokens, shared, tuple(members), tuple(read))
        for (tokens, members), shared, read in zip(distinct, shares, reads, strict=False)
    ]


def common(first: Tokens, second: Tokens) -> int:
    """How many tokens two sequences begin with alike."""
    size = min(len(first), len(second))
    differ = np.frombuffer(first, np.int32, size) != np.frombuffer(second, np.int32, size) if size else np.empty(0)
    return int(differ.argmax()) if differ.any() else size
