"""The prefix tree cut into forward passes, and what stays cached between them.

A pass computes the next tokens of the walk through the tree, whichever sequences they belong to.
Between two passes, only the keys and values on the path to the next token stay cached; everything
else is dropped as soon as no later token needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from multiform.models.torch.plan.tree import Branch

#: A pass may grow to this many times its size before a prefix that did not fit the cache is computed again.
STRETCH = 2


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
    def computed(self) -> int:
        return sum(chunk.stop - chunk.start for chunk in self.chunks)


def cut(branches: Sequence[Branch], *, size: int, budget: int) -> list[Pass]:
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
        self.chunks.append(Chunk(branch, start, stop, new_from, _merged(span for _, span in self.path)))
        self.filled += stop - start
        self.path.append((start, Span(position, position + stop - start)))

    def close(self, depth: int) -> int:
        """End the pass; the first `depth` tokens of the path stay cached, or as many as the budget allows."""
        if not self.chunks:
            return depth
        cached = min(depth, self.budget)
        self.path = _up_to(self.path, cached)
        self.passes.append(Pass(self.cached, tuple(self.chunks), _merged(span for _, span in self.path)))
        self.path = [(0, Span(0, cached))] if cached else []
        self.cached, self.filled, self.chunks = cached, 0, []
        return cached


def _up_to(path: Sequence[tuple[int, Span]], depth: int) -> list[tuple[int, Span]]:
    """The part of a path above a depth."""
    return [(at, Span(span.start, min(span.stop, span.start + depth - at))) for at, span in path if at < depth]


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans with adjacent ones merged."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].stop == span.start:
            merged[-1] = Span(merged[-1].start, span.stop)
        else:
            merged.append(span)
    return tuple(merged)
