"""The tree cut into passes: what the model computes at a time, and what it keeps for later.

A pass takes the next tokens of the walk through the tree, whichever sequences they belong to.
Keys and values are kept from one pass to the next only for the path to the token that comes next,
so everything else is dropped as soon as no token needs it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from multiform.inference.plan.tree import Branch

#: A pass may grow to this many times its size before a prefix that could not be kept is computed again.
STRETCH = 2


class Span(NamedTuple):
    """Columns of a pass: the kept tokens come first, then those that the pass computes."""

    start: int
    stop: int


class Piece(NamedTuple):
    """The tokens of a branch from depth `start` to `stop`, which see the columns of `behind` and each other.

    Tokens before depth `fresh` were computed before and could not be kept.
    """

    branch: int
    start: int
    stop: int
    fresh: int
    behind: tuple[Span, ...]


class Pass(NamedTuple):
    """Pieces that are computed together on `kept` tokens; the columns of `keep` are kept after it."""

    kept: int
    pieces: tuple[Piece, ...]
    keep: tuple[Span, ...]

    @property
    def computed(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)


def cut(branches: Sequence[Branch], *, size: int, budget: int) -> list[Pass]:
    """Passes of `size` tokens that cover the tree and keep at most `budget` tokens between them.

    A pass is larger than `size` only where cutting it would mean computing more than the budget
    keeps once again.
    """
    packer = _Packer(budget)
    for number, branch in enumerate(branches):
        start = fresh = branch.shared
        end = len(branch.tokens)
        while start < end:
            room = size - packer.filled
            if end - start <= room:
                packer.add(number, start, end, fresh)
                break
            stop = min(start + room, budget)
            if stop > start:
                packer.add(number, start, stop, fresh)
                packer.close(stop)
                start = fresh = stop
            elif not packer.filled or (start > budget and packer.filled + end - start <= STRETCH * size):
                packer.add(number, start, end, fresh)
                break
            else:
                start = packer.close(start)
    packer.close(0)
    return packer.passes


@dataclass(slots=True)
class _Packer:
    """The pass that is being filled, and the path of its last token as (depth, columns)."""

    budget: int
    passes: list[Pass] = field(default_factory=list)
    kept: int = 0
    filled: int = 0
    pieces: list[Piece] = field(default_factory=list)
    path: list[tuple[int, Span]] = field(default_factory=list)

    def add(self, branch: int, start: int, stop: int, fresh: int) -> None:
        self.path = _upto(self.path, start)
        column = self.kept + self.filled
        self.pieces.append(Piece(branch, start, stop, fresh, _joined(span for _, span in self.path)))
        self.filled += stop - start
        self.path.append((start, Span(column, column + stop - start)))

    def close(self, depth: int) -> int:
        """End the pass; the first `depth` tokens of the path are kept, or as many as may be."""
        if not self.pieces:
            return depth
        kept = min(depth, self.budget)
        self.path = _upto(self.path, kept)
        self.passes.append(Pass(self.kept, tuple(self.pieces), _joined(span for _, span in self.path)))
        self.path = [(0, Span(0, kept))] if kept else []
        self.kept, self.filled, self.pieces = kept, 0, []
        return kept


def _upto(path: Sequence[tuple[int, Span]], depth: int) -> list[tuple[int, Span]]:
    """The path's part above a depth."""
    return [(at, Span(span.start, min(span.stop, span.start + depth - at))) for at, span in path if at < depth]


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans with neighbours made one."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].stop == span.start:
            joined[-1] = Span(joined[-1].start, span.stop)
        else:
            joined.append(span)
    return tuple(joined)
