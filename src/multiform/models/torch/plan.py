"""Plans: which tokens each forward pass computes, and which keys and values stay cached. Pure, without torch.

The prefix tree of the sequences is cut into forward passes. A pass computes the next tokens of a depth-first walk,
whichever sequences they belong to. Between two passes, only the keys and values on the path to the next token stay
cached; everything else is dropped as soon as no later token needs it. Prefixes that are kept from an earlier plan are
loaded instead of computed (`cache.KeptPrefixes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from multiform.models.torch.tree import Branch, Prefix, Tokens, build_tree, count_nodes, kept_parts, recurring_prefixes

#: A pass may grow to this many times its size before a prefix that did not fit the cache is computed again.
STRETCH = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """A context and its continuation as one token sequence; the continuation begins at `start`, which is above 0."""

    tokens: Tokens
    start: int

    @property
    def continuation_length(self) -> int:
        """The number of tokens in the continuation."""
        return len(self.tokens) - self.start

    @property
    def inputs(self) -> int:
        """The number of tokens that a model reads to score the continuation: all but the last."""
        return len(self.tokens) - 1 if self.continuation_length else 0

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
    """One forward pass: chunks computed after `cached` tokens; the positions in `keep` stay cached for the next.

    The cached tokens are those of the pass before, or of a kept prefix that is loaded. The prefixes in `saved`, each
    with its positions, are kept for later plans.
    """

    cached: int
    chunks: tuple[Chunk, ...]
    keep: tuple[Span, ...]
    load: Prefix | None = None
    saved: tuple[tuple[Prefix, tuple[Span, ...]], ...] = ()

    @property
    def computed_tokens(self) -> int:
        return sum(chunk.stop - chunk.start for chunk in self.chunks)


def cut_passes(
    branches: Sequence[Branch], *, size: int, budget: int, loads: Mapping[int, Prefix], saves: Mapping[int, int]
) -> list[Pass]:
    """Passes of `size` tokens that cover the tree and keep at most `budget` tokens cached between them.

    A pass is larger than `size` only where cutting it would mean computing tokens again that do not
    fit the budget.
    """
    packer = _Packer(budget, saves)
    for number, branch in enumerate(branches):
        start = new_from = branch.shared
        if number in loads:
            packer.close(0)
            start = new_from = packer.begin_with(loads[number])
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
    saves: Mapping[int, int]
    passes: list[Pass] = field(default_factory=list)
    cached: int = 0
    filled: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    path: list[tuple[int, Span]] = field(default_factory=list)
    load: Prefix | None = None
    saved: list[tuple[Prefix, tuple[Span, ...]]] = field(default_factory=list)

    def add(self, branch: int, start: int, stop: int, new_from: int) -> None:
        self.path = _up_to(self.path, start)
        position = self.cached + self.filled
        self.chunks.append(Chunk(branch, start, stop, new_from, _merge_adjacent(span for _, span in self.path)))
        self.filled += stop - start
        self.path.append((start, Span(position, position + stop - start)))
        length = self.saves.get(branch, 0)
        if start < length <= stop:
            spans = _merge_adjacent(span for _, span in _up_to(self.path, length))
            self.saved.append((Prefix(branch, length), spans))

    def begin_with(self, prefix: Prefix) -> int:
        """Begin a pass after a kept prefix; returns the depth at which it goes on."""
        self.load, self.cached, self.path = prefix, prefix.length, [(0, Span(0, prefix.length))]
        return prefix.length

    def close(self, depth: int) -> int:
        """End the pass; the first `depth` tokens of the path stay cached, or as many as the budget allows."""
        if not self.chunks:
            return depth
        cached = min(depth, self.budget)
        self.path = _up_to(self.path, cached)
        keep = _merge_adjacent(span for _, span in self.path)
        self.passes.append(Pass(self.cached, tuple(self.chunks), keep, self.load, tuple(self.saved)))
        self.path = [(0, Span(0, cached))] if cached else []
        self.cached, self.filled, self.chunks, self.load, self.saved = cached, 0, [], None, []
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

    @classmethod
    def of_tree(
        cls, sequences: Sequence[Tokens], branches: Sequence[Branch], passes: Sequence[int], cached: int
    ) -> Cost:
        """The cost of sequences whose tree is computed in passes of so many tokens."""
        return cls(
            sequences=len(sequences),
            tokens=sum(map(len, sequences)),
            nodes=count_nodes(branches),
            computed=sum(passes),
            passes=len(passes),
            cached=cached,
        )

    @classmethod
    def in_batches(cls, sequences: int, tokens: int) -> Cost:
        """The cost of sequences that share nothing, but for padding."""
        return cls(sequences=sequences, tokens=tokens, nodes=tokens, computed=tokens)


@dataclass(frozen=True, slots=True)
class Plan:
    """The prefix tree of some sequences, the forward passes that compute it, and their cost."""

    branches: list[Branch]
    passes: list[Pass]
    cost: Cost


def plan(
    sequences: Sequence[Tokens],
    needed_from: Sequence[int],
    *,
    size: int,
    budget: int,
    kept: Sequence[Tokens] = (),
    most_kept: int = 0,
    cached: int = 0,
) -> Plan:
    """The plan for sequences whose outputs are needed from depth `needed_from` on.

    A pass computes about `size` tokens, at most half more, so that all passes have equally many:
    a small one takes nearly as long. At most `budget` tokens stay cached between passes. The order of
    the sequences makes no difference. The prefixes in `kept` are not computed again, and of those that later plans are
    likely to have, `most_kept` tokens are saved. The first `cached` tokens, which all sequences have in common, are in
    the cache when the first pass begins.

    >>> from array import array
    >>> plan([array("i", [1, 2, 3]), array("i", [1, 2, 4])], [1, 1], size=512, budget=512).cost.computed
    4
    """
    branches = build_tree(sequences, needed_from)
    loads = {0: Prefix(0, cached)} if cached else kept_parts(branches, kept, budget=budget)
    saves = recurring_prefixes(branches, most=most_kept) if most_kept else {}
    loaded = sum(prefix.length - branches[number].shared for number, prefix in loads.items())
    even = even_size(count_nodes(branches) - loaded, size)
    passes = cut_passes(branches, size=even, budget=budget, loads=loads, saves=saves)
    most = max((step.cached for step in passes), default=0)
    return Plan(branches, passes, Cost.of_tree(sequences, branches, [step.computed_tokens for step in passes], most))


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
    if not cost.passes:
        return f"{cost.sequences:,} sequences of {cost.tokens:,} tokens in batches, without shared prefixes"
    times = f"{cost.tokens / max(1, cost.computed):.1f} times less"
    passes = f"{cost.passes:,} pass{'' if cost.passes == 1 else 'es'}"
    return (
        f"{cost.sequences:,} sequences of {cost.tokens:,} tokens: {cost.nodes:,} in the prefix tree, "
        f"{cost.computed:,} computed ({times}) in {passes}, at most {cost.cached:,} cached"
    )
