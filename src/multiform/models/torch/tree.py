"""Prefix trees of token sequences, and the prefixes in them that many branches share. Pure, without torch.

In sorted order every sequence begins with the prefix that it shares with the one before it, so a tree is a sorted list.
A branch adds the tokens after its shared prefix, and iterating over the list is a depth-first walk through the tree.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

#: Token ids in four bytes each; a list of ints needs nine times that, and runs hold millions.
Tokens: TypeAlias = "array[int]"
#: A prefix is kept for later plans where so many branches have it, and is loaded where that saves so many tokens: each
#: load ends a pass.
MANY_BRANCHES = 32
LEAST_LOADED = 64


class NeededOutput(NamedTuple):
    """The depths from `start` to `stop` at which a request needs the model's output."""

    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A distinct sequence, whose first `shared` tokens are also those of the branch before.

    `requests` are the requests that have this sequence. `needed` are the outputs needed at the
    depths that the branch adds to the tree, by its own requests and by those of later branches.
    """

    tokens: Tokens
    shared: int
    requests: tuple[int, ...]
    needed: tuple[NeededOutput, ...]


def build_tree(sequences: Sequence[Tokens], needed_from: Sequence[int], *, shares: bool = True) -> list[Branch]:
    """The branches of the prefix tree; a sequence's outputs are needed from depth `needed_from` to its end.

    Unless it `shares` prefixes, every distinct sequence is a branch from the root.

    >>> from array import array
    >>> tree = build_tree([array("i", [1, 2, 3]), array("i", [1, 2]), array("i", [1, 2, 4])], [1, 1, 1])
    >>> [(branch.tokens.tolist(), branch.shared) for branch in tree]
    [([1, 2], 0), ([1, 2, 3], 2), ([1, 2, 4], 2)]
    >>> [(output.request, output.start, output.stop) for output in tree[0].needed]
    [(1, 1, 2), (0, 1, 2), (2, 1, 2)]
    """
    distinct: list[tuple[Tokens, list[int]]] = []
    for index in sorted(range(len(sequences)), key=sequences.__getitem__):
        if not distinct or distinct[-1][0] != sequences[index]:
            distinct.append((sequences[index], []))
        distinct[-1][1].append(index)
    shared_lengths = [0, *(common_prefix_length(a, b) if shares else 0 for (a, _), (b, _) in pairwise(distinct))]
    needed: list[list[NeededOutput]] = [[] for _ in distinct]
    path: list[tuple[int, int]] = []  # the branches on the way from the root: the depth where each begins, its number
    for number, ((tokens, requests), shared) in enumerate(zip(distinct, shared_lengths, strict=False)):
        while path and path[-1][0] >= shared:
            path.pop()
        path.append((shared, number))
        for request in requests:
            stop = len(tokens)
            for depth, owner in reversed(path):
                start = max(depth, needed_from[request])
                if start < stop:
                    needed[owner].append(NeededOutput(request, start, stop))
                stop = min(stop, depth)
                if needed_from[request] >= depth:
                    break
    return [
        Branch(tokens, shared, tuple(requests), tuple(outputs))
        for (tokens, requests), shared, outputs in zip(distinct, shared_lengths, needed, strict=False)
    ]


def shared_prefixes(sequences: Sequence[Tokens]) -> list[int]:
    """For each of the sorted sequences, the length of the prefix that it shares with its group.

    A group within a larger one gets a longer prefix of its own where that saves more tokens than
    the prefix has. At least one token of every sequence stays outside its prefix.

    >>> from array import array
    >>> shared_prefixes([array("i", [1, 2, 3, end]) for end in range(4)])
    [3, 3, 3, 3]
    """
    prefixes = [0] * len(sequences)
    shared_lengths = [0, *(min(common_prefix_length(a, b), len(a) - 1, len(b) - 1) for a, b in pairwise(sequences))]
    pending = [(0, len(sequences), 0)]
    while pending:
        first, last, prefix = pending.pop()
        if last - first < 2:
            prefixes[first:last] = [prefix] * (last - first)
            continue
        shared, groups = fork(shared_lengths, first, last)
        if (last - first - 1) * (shared - prefix) > shared:
            prefix = shared
        pending.extend((start, stop, prefix) for start, stop in groups)
    return prefixes


def fork(shared_lengths: Sequence[int], first: int, last: int) -> tuple[int, list[tuple[int, int]]]:
    """The length of the prefix that sequences `first` to `last` share, and the groups into which they part after it.

    The lengths are those of the prefixes that each of the sorted sequences shares with the one before it.

    >>> fork([0, 3, 5, 3, 4], 0, 5)
    (3, [(0, 1), (1, 3), (3, 5)])
    """
    shared = min(shared_lengths[first + 1 : last])
    cuts = [first, *(index for index in range(first + 1, last) if shared_lengths[index] == shared), last]
    return shared, list(pairwise(cuts))


def common_prefix_length(first: Tokens, second: Tokens) -> int:
    """The number of tokens that two sequences have in common at their beginning."""
    size = min(len(first), len(second))
    differ = np.frombuffer(first, np.int32, size) != np.frombuffer(second, np.int32, size) if size else np.empty(0)
    return int(differ.argmax()) if differ.any() else size


def count_nodes(branches: Sequence[Branch]) -> int:
    """The number of nodes in a prefix tree: the tokens that have to be computed at least."""
    return sum(len(branch.tokens) - branch.shared for branch in branches)


class Prefix(NamedTuple):
    """The first `length` tokens of the branch, or of the kept prefix, with that number."""

    number: int
    length: int


def kept_parts(branches: Sequence[Branch], kept: Sequence[Tokens], *, budget: int) -> dict[int, Prefix]:
    """What is loaded before a branch, by the branch's number: the first tokens of a prefix that is kept.

    Outputs that are needed within a kept prefix are not kept, so it is loaded up to there.
    """
    loads: dict[int, Prefix] = {}
    ordered = sorted(range(len(kept)), key=kept.__getitem__)
    longest = min(budget, max(map(len, kept), default=0))
    for number, branch in enumerate(branches):
        if longest - branch.shared < LEAST_LOADED:
            continue
        place = bisect_left(ordered, branch.tokens, key=kept.__getitem__)
        near = ordered[max(0, place - 1) : place + 1]  # of sorted sequences, neighbours have most in common
        length, index = max((common_prefix_length(kept[index], branch.tokens), index) for index in near)
        length = min([length, budget, *(needed.start for needed in branch.needed)])
        if length - branch.shared >= LEAST_LOADED:
            loads[number] = Prefix(index, length)
    return loads


def recurring_prefixes(branches: Sequence[Branch], *, most: int) -> dict[int, int]:
    """The prefixes that later plans are likely to have: the first branch of each, and its length.

    They are those of many branches, such as few-shot examples, and have `most` tokens at most, all together: those of
    the most branches come first. One that is hardly longer than that of more branches is left out, and so is one that
    is the beginning of others.

    >>> from array import array
    >>> shots = array("i", range(100))
    >>> questions = [shots + array("i", [7, number, number]) for number in range(40)]
    >>> recurring_prefixes(build_tree(questions, [102] * 40), most=1000)
    {0: 101}
    """
    found: dict[tuple[int, int], int] = {}  # a first branch and a length, and how many branches have that prefix
    inner: set[tuple[int, int]] = set()  # those that are the beginning of others
    shared_lengths = [branch.shared for branch in branches]
    pending = [(0, len(branches), (0, 0))]
    while pending:
        first, last, outer = pending.pop()
        if last - first < MANY_BRANCHES:
            continue
        length, groups = fork(shared_lengths, first, last)
        kept = min([length, *(needed.start for needed in branches[first].needed)])
        if kept - outer[1] >= LEAST_LOADED:
            inner.add(outer)
            outer = first, kept
            found[outer] = last - first
        pending.extend((start, stop, outer) for start, stop in groups)
    prefixes: dict[int, int] = {}
    for first, length in sorted(found, key=lambda prefix: -found[prefix]):
        if (first, length) not in inner and length + sum(prefixes.values()) <= most:
            prefixes[first] = length
    return prefixes
