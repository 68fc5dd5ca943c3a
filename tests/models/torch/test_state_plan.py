"""Plans of copied states: every output is computed once, after the right state, and within the limits."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.models.torch.plan import BatchLimits
from multiform.models.torch.state_plan import MOST_STEPS, StatePlan, plan_states

TRUNK = list(range(1, 101))


def sequences_of(*tokens: list[int]) -> list[array[int]]:
    return [array("i", each) for each in tokens]


def paths(planned: StatePlan) -> list[list[list[int]]]:
    """For each batch and row, all tokens that its output depends on."""
    rows: list[list[list[int]]] = []
    for batch in planned.batches:
        before = rows[batch.parent] if batch.parent >= 0 else [[]]
        rows.append(
            [
                before[row.parent_row if batch.parent >= 0 else 0]
                + planned.branches[row.branch].tokens[row.start : row.stop].tolist()
                for row in batch.rows
            ]
        )
    return rows


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=12), min_size=1, max_size=20),
    st.integers(1, 4),
    st.integers(1, 60),
    st.integers(0, 40),
    st.booleans(),
    st.integers(1, 8),
)
def test_every_output_is_computed_once_after_its_own_tokens(
    tokens: list[list[int]], rows: int, size: int, kept: int, stepwise: bool, least: int
) -> None:
    sequences = sequences_of(*tokens)
    needed_from = [len(each) // 2 for each in tokens]
    planned = plan_states(
        sequences, needed_from, limits=BatchLimits(rows, size), max_kept=kept, stepwise=stepwise, least=least
    )
    computed: Counter[tuple[int, int]] = Counter()
    released: set[int] = set()
    for number, (batch, prefixes) in enumerate(zip(planned.batches, paths(planned), strict=True)):
        assert batch.parent not in released
        assert batch.parent < number
        assert batch.parent < 0 or planned.batches[batch.parent].is_kept
        assert len(batch.rows) <= rows
        assert len({row.start for row in batch.rows}) == 1
        if batch.is_kept:
            assert len({row.stop for row in batch.rows}) == 1
        for row, prefix in zip(batch.rows, prefixes, strict=True):
            branch = planned.branches[row.branch]
            assert prefix == branch.tokens[: row.stop].tolist()
            for needed in branch.needed:
                for depth in range(max(needed.start, row.start), min(needed.stop, row.stop)):
                    computed[needed.request, depth] += 1
        if batch.is_last and batch.parent >= 0:
            released.add(batch.parent)
    assert computed == {
        (request, depth): 1 for request, each in enumerate(tokens) for depth in range(needed_from[request], len(each))
    }
    assert planned.cost.cached <= kept
    assert planned.cost.computed <= planned.cost.tokens


def test_what_sequences_share_is_computed_once() -> None:
    ends = [[*TRUNK, *question, *answer] for question in ([200] * 30, [201] * 30) for answer in ([1], [2, 3], [4] * 5)]
    planned = plan_states(sequences_of(*ends), [130] * 6, limits=BatchLimits(8, 4096), least=8)
    assert planned.cost.computed == planned.cost.nodes == 100 + 2 * 30 + 2 * 8
    assert [len(batch.rows) for batch in planned.batches] == [1, 2, 6]


def test_a_short_common_prefix_is_not_worth_a_state() -> None:
    planned = plan_states(sequences_of([1, 2, 3], [1, 2, 4]), [2, 2], limits=BatchLimits(8, 4096))
    assert [len(batch.rows) for batch in planned.batches] == [2]


@pytest.mark.parametrize(("tail", "batches"), [(MOST_STEPS, 2), (MOST_STEPS + 1, 1)])
def test_steps_are_taken_only_where_few_tokens_follow(tail: int, batches: int) -> None:
    sequences = sequences_of([*TRUNK, *[1] * tail], [*TRUNK, *[2] * tail])
    planned = plan_states(sequences, [100, 100], limits=BatchLimits(8, 4096), stepwise=True)
    assert len(planned.batches) == batches


def test_without_room_for_states_sequences_are_computed_whole() -> None:
    sequences = sequences_of([*TRUNK, 1], [*TRUNK, 2])
    planned = plan_states(sequences, [100, 100], limits=BatchLimits(8, 4096), max_kept=99)
    assert planned.cost.computed == 202
    assert planned.cost.cached == 0
