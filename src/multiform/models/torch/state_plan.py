"""Plans for models whose state can be copied but not cut: which tokens each batch computes, after which kept state.

A recurrent model has one state after all its tokens, where attention has keys and values for each of them. Sequences
with a common prefix begin with a copy of the state at its end. All rows of a batch begin at one depth. Those whose
state is kept end at one depth, too, because padding would become part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from multiform.models.torch.plan import BatchLimits, Cost
from multiform.models.torch.tree import Branch, Tokens, build_tree, fork

#: Tokens that a kept state has to save: fewer are computed faster than a batch of their own.
LEAST_SAVED = 32
#: The most tokens that are computed one by one after a state, where a model takes no more in a step.
MOST_STEPS = 16


class StateRow(NamedTuple):
    """The tokens of a branch from depth `start` to `stop`, after the state in a row of the batch before."""

    parent_row: int
    branch: int
    start: int
    stop: int


class StateBatch(NamedTuple):
    """Rows that are computed together after the states of batch `parent`, or after none (-1).

    `is_last` says that no later batch needs these states.
    """

    parent: int
    rows: tuple[StateRow, ...]
    is_kept: bool
    is_last: bool = False

    @property
    def width(self) -> int:
        """The tokens of the longest row."""
        return max(row.stop - row.start for row in self.rows)


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The prefix tree of some sequences, the batches that compute it, and their cost."""

    branches: list[Branch]
    batches: list[StateBatch]
    cost: Cost


@dataclass(slots=True)
class _Edge:
    """The tokens of a branch between two depths; the state at its end is kept for its children, if it has any."""

    branch: int
    start: int
    stop: int
    children: list[_Edge] = field(default_factory=list)


def plan_states(
    sequences: Sequence[Tokens],
    needed_from: Sequence[int],
    *,
    limits: BatchLimits,
    max_kept: int = 2**31,
    shares: bool = True,
    stepwise: bool = False,
    least: int = LEAST_SAVED,
) -> StatePlan:
    """The plan for sequences whose outputs are needed from depth `needed_from` on.

    The states of at most `max_kept` tokens are in memory at once; none is kept where nothing is shared. With
    `stepwise`, tokens after a state are computed one by one: states are kept only where few tokens follow.

    >>> from array import array
    >>> trunk = list(range(100))
    >>> sequences = [array("i", [*trunk, 1, 2]), array("i", [*trunk, 3])]
    >>> planned = plan_states(sequences, [100, 100], limits=BatchLimits(8, 512))
    >>> [[row.stop - row.start for row in batch.rows] for batch in planned.batches]
    [[100], [2, 1]]
    """
    branches = build_tree(sequences, needed_from, shares=shares)
    batches = list(_batches(_edges(branches, stepwise, least), limits, max_kept))
    if not shares:  # the longest first: if memory is short, that shows at once
        batches.reverse()
    last_use = {batch.parent: number for number, batch in enumerate(batches)}
    batches = [batch._replace(is_last=last_use[batch.parent] == number) for number, batch in enumerate(batches)]
    computed = [sum(row.stop - row.start for row in batch.rows) for batch in batches]
    return StatePlan(branches, batches, Cost.of_tree(sequences, branches, computed, _peak_kept_tokens(batches)))


def _edges(branches: Sequence[Branch], stepwise: bool, least: int) -> list[_Edge]:
    """The edges from the root of the tree, cut where a state is worth keeping."""
    roots: list[_Edge] = []
    shared_lengths = [branch.shared for branch in branches]
    pending = [(0, len(branches), 0, roots)]
    while pending:
        first, last, depth, siblings = pending.pop()
        if last - first < 2:
            siblings.extend(_leaves(branches, range(first, last), depth))
            continue
        shared, groups = fork(shared_lengths, first, last)
        if (last - first - 1) * (shared - depth) >= least:
            longest = max(len(branch.tokens) for branch in branches[first:last])
            if not stepwise or longest - shared <= MOST_STEPS:
                edge = _Edge(first, depth, shared)
                siblings.append(edge)
                siblings, depth = edge.children, shared
            if stepwise and depth == shared:
                siblings.extend(_leaves(branches, range(first, last), depth))
                continue
        pending.extend((start, stop, depth, siblings) for start, stop in groups)
    return roots


def _leaves(branches: Sequence[Branch], numbers: Iterable[int], depth: int) -> Iterator[_Edge]:
    """The rest of each branch after a depth, where it has one."""
    return (
        _Edge(number, depth, len(branches[number].tokens)) for number in numbers if len(branches[number].tokens) > depth
    )


def _batches(roots: Sequence[_Edge], limits: BatchLimits, max_kept: int) -> Iterator[StateBatch]:
    """The batches, each soon after the one whose states it needs, so that few states are in memory."""
    pending = _groups(-1, [(0, edge) for edge in roots], 0, limits, max_kept)
    number = 0
    while pending:
        parent, group, kept_tokens = pending.pop()
        is_kept = bool(group[0][1].children)
        rows = (StateRow(row, edge.branch, edge.start, edge.stop) for row, edge in group)
        yield StateBatch(parent, tuple(rows), is_kept)
        children = [(row, child) for row, (_, edge) in enumerate(group) for child in edge.children]
        pending.extend(_groups(number, children, kept_tokens, limits, max_kept))
        number += 1


def _groups(
    parent: int, items: Sequence[tuple[int, _Edge]], kept_tokens: int, limits: BatchLimits, max_kept: int
) -> list[tuple[int, list[tuple[int, _Edge]], int]]:
    """Edges after the rows of a batch, in groups of one batch each; those without children come last.

    `kept_tokens` is the number of tokens whose states are kept; without room, an edge's children are computed whole.
    """
    edges: list[tuple[int, _Edge]] = []
    for row, edge in items:
        fits = not edge.children or kept_tokens + edge.stop <= max_kept
        edges.extend([(row, edge)] if fits else [(row, leaf) for leaf in _whole(edge)])
    groups: list[tuple[int, list[tuple[int, _Edge]], int]] = []
    edges.sort(key=lambda item: (not item[1].children, -item[1].stop))
    # Rows whose state is kept end at one depth; the others need none.
    for depth, group in groupby(edges, key=lambda item: item[1].stop if item[1].children else 0):
        rows = list(group)
        while rows:
            count = limits.fit(rows[0][1].stop)
            if depth:
                count = min(count, max(1, (max_kept - kept_tokens) // depth))
            groups.append((parent, rows[:count], kept_tokens + len(rows[:count]) * depth))
            rows = rows[count:]
    return groups


def _whole(edge: _Edge) -> list[_Edge]:
    """The branches that begin with an edge, each from the edge's start to its end."""
    ends: dict[int, int] = {}
    pending = [edge]
    while pending:
        node = pending.pop()
        ends[node.branch] = max(node.stop, ends.get(node.branch, 0))
        pending.extend(node.children)
    return [_Edge(branch, edge.start, stop) for branch, stop in sorted(ends.items())]


def _peak_kept_tokens(batches: Sequence[StateBatch]) -> int:
    """The peak number of tokens whose states are kept."""
    most = kept_tokens = 0
    sizes = [sum(row.stop for row in batch.rows) for batch in batches]
    for number, batch in enumerate(batches):
        kept_tokens += sizes[number] if batch.is_kept else 0
        most = max(most, kept_tokens)
        kept_tokens -= sizes[batch.parent] if batch.is_last and batch.parent >= 0 else 0
    return most
