"""Plans: which tokens each forward pass computes, and which keys and values stay cached. Pure, without torch.

The prefix tree of a set of token sequences: in sorted order every sequence begins with the prefix that it shares with
the one before it, so the tree is a sorted list. A branch adds the tokens after its shared prefix, and iterating over
the list is a depth-first walk through the tree.

The tree is cut into forward passes. A pass computes the next tokens of the walk, whichever sequences they belong to.
Between two passes, only the keys and values on the path to the next token stay cached; everything else is dropped as
soon as no later token needs it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

#: Token ids in four bytes each; a list of ints needs nine times that, and runs hold millions.
Tokens: TypeAlias = "array[int]"
#: A pass may grow to this many times its size before a prefix that did not fit the cache is computed again.
STRETCH = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """A context and its continuation as one token sequence; the continuation begins at `start`, which is above 0."""

    tokens: Tokens
    start: int

    @property
    def inputs(self) -> int:
        """The number of tokens that a model reads to score the continuation: all but the last."""
        return len(self.tokens) - 1 if self.start < len(self.tokens) else 0

    @property
    def context(self) -> list[int]:
        return self.tokens[: self.start].tolist()

    @property
    def continuation(self) -> list[int]:
        return self.tokens[self.start :].tolist()


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most rows and the most tokens, padding included, in a batch; one row alone may have more tokens."""

    rows: int
    tokens: int

    def fit(self, length: int) -> int:
        """How many rows of that length go into a batch."""
        return max(1, min(self.rows, self.tokens // max(1, length)))


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


def build_tree(sequences: Sequence[Tokens], needed_from: Sequence[int]) -> list[Branch]:
    """The branches of the prefix tree; a sequence's outputs are needed from depth `needed_from` to its end.

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
    shared_lengths = [0, *(common_prefix_length(a, b) for (a, _), (b, _) in pairwise(distinct))]
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
        shared = min(shared_lengths[first + 1 : last])
        if (last - first - 1) * (shared - prefix) > shared:
            prefix = shared
        cuts = [first, *(index for index in range(first + 1, last) if shared_lengths[index] == shared), last]
        pending.extend((start, stop, prefix) for start, stop in pairwise(cuts))
    return prefixes


def common_prefix_length(first: Tokens, second: Tokens) -> int:
    """The number of tokens that two sequences have in common at their beginning."""
    size = min(len(first), len(second))
    differ = np.frombuffer(first, np.int32, size) != np.frombuffer(second, np.int32, size) if size else np.empty(0)
    return int(differ.argmax()) if differ.any() else size


class Span(NamedTuple):
    """KV cache positions during a pass: the cached tokens come first, then those that the pass computes."""

    start: int
    stop: int


class Chunk(NamedTuple):
    """The tokens of a branch from depth `start` to `stop`, which see the positions in `prefix` and each other.

    Tokens before depth `new_from` were computed by an earlier pass and could not stay cached.
    """

    branch: int
    start: int
    stop: int
    new_from: int
    prefix: tuple[Span, ...]


class Pass(NamedTuple):
    """One forward pass: chunks computed after `cached` tokens; the positions in `keep` stay cached for the next."""

    cached: int
    chunks: tuple[Chunk, ...]
    keep: tuple[Span, ...]

    @property
    def computed_tokens(self) -> int:
        return sum(chunk.stop - chunk.start for chunk in self.chunks)


def cut_passes(branches: Sequence[Branch], *, size: int, budget: int) -> list[Pass]:
    """Passes of `size` tokens that cover the tree and keep at most `budget` tokens cached between them.

    A pass is larger than `size` only where cutting it would mean computing tokens again that do not
    fit the budget.
    """
    packer = _Packer(budget)
    for number, branch in enumerate(branches):
        start = new_from = branch.shared
        end = len(branch.tokens)
        while start < end:
            room = size - packer.filled
            if end - start <= room:
                packer.add(number, start, end, new_from)
                break
            stop = min(start + room, budget)
            if stop > start:
                packer.add(number, start, stop, new_from)
                packer.close(stop)
                start = new_from = stop
            elif not packer.filled or (start > budget and packer.filled + end - start <= STRETCH * size):
                packer.add(number, start, end, new_from)
                break
            else:
                start = packer.close(start)
    packer.close(0)
    return packer.passes


@dataclass(slots=True)
class _Packer:
    """The pass that is being filled, and the path of its last token as (depth, cache positions)."""

    budget: int
    passes: list[Pass] = field(default_factory=list)
    cached: int = 0
    filled: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    path: list[tuple[int, Span]] = field(default_factory=list)

    def add(self, branch: int, start: int, stop: int, new_from: int) -> None:
        self.path = _up_to(self.path, start)
        position = self.cached + self.filled
        self.chunks.append(Chunk(branch, start, stop, new_from, _merge_adjacent(span for _, span in self.path)))
        self.filled += stop - start
        self.path.append((start, Span(position, position + stop - start)))

    def close(self, depth: int) -> int:
        """End the pass; the first `depth` tokens of the path stay cached, or as many as the budget allows."""
        if not self.chunks:
            return depth
        cached = min(depth, self.budget)
        self.path = _up_to(self.path, cached)
        self.passes.append(Pass(self.cached, tuple(self.chunks), _merge_adjacent(span for _, span in self.path)))
        self.path = [(0, Span(0, cached))] if cached else []
        self.cached, self.filled, self.chunks = cached, 0, []
        return cached


def _up_to(path: Sequence[tuple[int, Span]], depth: int) -> list[tuple[int, Span]]:
    """The part of a path above a depth."""
    return [(at, Span(span.start, min(span.stop, span.start + depth - at))) for at, span in path if at < depth]


def _merge_adjacent(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans with adjacent ones merged."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].stop == span.start:
            merged[-1] = Span(merged[-1].start, span.stop)
        else:
            merged.append(span)
    return tuple(merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a plan, in tokens.

    `tokens` counts the tokens of all sequences, `nodes` those of the prefix tree, which is the least
    that has to be computed, and `computed` those that the plan computes. `cached` is the largest
    number of tokens whose keys and values stay cached between two passes.
    """

    sequences: int = 0
    tokens: int = 0
    nodes: int = 0
    computed: int = 0
    passes: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The prefix tree of some sequences, the forward passes that compute it, and their cost."""

    branches: list[Branch]
    passes: list[Pass]
    cost: Cost


def plan(sequences: Sequence[Tokens], needed_from: Sequence[int], *, size: int, budget: int) -> Plan:
    """The plan for sequences whose outputs are needed from depth `needed_from` on.

    A pass computes about `size` tokens, at most half more, so that all passes have equally many:
    a small one takes nearly as long. At most `budget` tokens stay cached between passes. The order of
    the sequences makes no difference.

    >>> from array import array
    >>> plan([array("i", [1, 2, 3]), array("i", [1, 2, 4])], [1, 1], size=512, budget=512).cost.computed
    4
    """
    branches = build_tree(sequences, needed_from)
    passes = cut_passes(branches, size=even_size(count_nodes(branches), size), budget=budget)
    cost = Cost(
        sequences=len(sequences),
        tokens=sum(map(len, sequences)),
        nodes=count_nodes(branches),
        computed=sum(step.computed_tokens for step in passes),
        passes=len(passes),
        cached=max((step.cached for step in passes), default=0),
    )
    return Plan(branches, passes, cost)


def count_nodes(branches: Sequence[Branch]) -> int:
    """The number of nodes in a prefix tree: the tokens that have to be computed at least."""
    return sum(len(branch.tokens) - branch.shared for branch in branches)


def even_size(total: int, size: int) -> int:
    """The size nearest to `size` of parts into which a total can be divided evenly.

    >>> even_size(519, 512), even_size(1100, 512)
    (519, 550)
    """
    passes = max(1, (2 * total + size) // (2 * size))
    return max(1, -(-total // passes))


def describe(cost: Cost) -> str:
    """The cost in a sentence.

    >>> describe(Cost(sequences=8, tokens=900, nodes=300, computed=300, passes=1))
    '8 sequences of 900 tokens: 300 in the prefix tree, 300 computed (3.0 times less) in 1 pass, at most 0 cached'
    """
    times = f"{cost.tokens / max(1, cost.computed):.1f} times less"
    passes = f"{cost.passes:,} pass{'' if cost.passes == 1 else 'es'}"
    return (
        f"{cost.sequences:,} sequences of {cost.tokens:,} tokens: {cost.nodes:,} in the prefix tree, "
        f"{cost.computed:,} computed ({times}) in {passes}, at most {cost.cached:,} cached"
    )
