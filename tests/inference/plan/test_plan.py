"""Plans: every token that is needed, once, and no more kept than the budget allows."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multiform.inference.plan import Cost, Plan, Tokens, describe, plan

#: Few different tokens make many common prefixes.
sequences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=30).map(lambda ids: array("i", ids)), min_size=1, max_size=25
)
sizes = st.integers(1, 40)
budgets = st.integers(0, 40)


def nodes(given: list[Tokens]) -> int:
    """The nodes of the prefix tree, counted in the plainest way."""
    return len({tuple(tokens[:depth]) for tokens in given for depth in range(1, len(tokens) + 1)})


def planned(given: list[Tokens], size: int, budget: int, wanted: list[int] | None = None) -> Plan:
    return plan(given, wanted or [0] * len(given), size=size, budget=budget)


def seen(made: Plan) -> list[tuple[int, tuple[int, ...], bool]]:
    """Runs the plan on paper: of each computed token the branch, all tokens that it sees, and whether it is new."""
    found = []
    kept: list[int] = []
    for step in made.passes:
        assert len(kept) == step.cached
        columns = list(kept)
        for piece in step.chunks:
            tokens = made.branches[piece.branch].tokens
            behind = [columns[column] for span in piece.prefix for column in range(*span)]
            for depth in range(piece.start, piece.stop):
                visible = (*behind, *tokens[piece.start : depth + 1])
                found.append((piece.branch, visible, depth >= piece.new_from))
            columns.extend(tokens[piece.start : piece.stop])
        kept = [columns[column] for span in step.keep for column in range(*span)]
    assert kept == []
    return found


@given(sequences, sizes, budgets)
def test_every_token_sees_its_own_prefix_and_nothing_else(given: list[Tokens], size: int, budget: int) -> None:
    made = planned(given, size, budget)
    for branch, visible, _ in seen(made):
        assert visible == tuple(made.branches[branch].tokens[: len(visible)])


@given(sequences, sizes, budgets)
def test_every_node_is_computed_once_and_again_only_where_it_could_not_be_kept(
    given: list[Tokens], size: int, budget: int
) -> None:
    made = planned(given, size, budget)
    new = [visible for _, visible, fresh in seen(made) if fresh]
    assert len(new) == len(set(new)) == nodes(given) == made.cost.nodes
    assert made.cost.computed == len(seen(made))
    if budget >= max(map(len, given)):
        assert made.cost.computed == made.cost.nodes


@given(sequences, sizes, budgets)
def test_the_budget_is_respected(given: list[Tokens], size: int, budget: int) -> None:
    made = planned(given, size, budget)
    assert all(step.cached <= budget for step in made.passes)
    assert made.cost.cached <= budget


@given(sequences, sizes, budgets)
@example([array("i", [1] * 30)], 4, 0)
def test_a_pass_is_much_larger_than_asked_only_where_the_budget_is_too_small(
    given: list[Tokens], size: int, budget: int
) -> None:
    longest = max(map(len, given))
    for step in planned(given, size, budget).passes:
        even = 1.5 * size
        assert step.computed <= (even if budget >= longest else max(2 * even, longest))


@given(sequences, sizes, budgets, st.randoms(use_true_random=False))
def test_the_order_of_the_sequences_makes_no_difference(
    given: list[Tokens], size: int, budget: int, numbers: random.Random
) -> None:
    shuffled = numbers.sample(given, len(given))
    assert planned(shuffled, size, budget).cost == planned(given, size, budget).cost


@given(sequences, st.data())
def test_every_output_that_a_request_needs_is_read_once(given: list[Tokens], data: st.DataObject) -> None:
    wanted = [data.draw(st.integers(0, len(tokens) - 1)) for tokens in given]
    made = planned(given, 8, 40, wanted)
    read: dict[int, list[int]] = {index: [] for index in range(len(given))}
    for branch in made.branches:
        for request, start, stop in branch.needed:
            assert branch.shared <= start < stop <= len(branch.tokens)
            assert given[request][:stop] == branch.tokens[:stop]
            read[request] += range(start, stop)
    assert {index: sorted(depths) for index, depths in read.items()} == {
        index: list(range(wanted[index], len(tokens))) for index, tokens in enumerate(given)
    }


@given(sequences)
def test_every_request_belongs_to_one_branch(given: list[Tokens]) -> None:
    branches = planned(given, 8, 40).branches
    assert sorted(member for branch in branches for member in branch.requests) == list(range(len(given)))
    assert all(given[member] == branch.tokens for branch in branches for member in branch.requests)


def test_no_pass_is_small_where_all_can_be_kept() -> None:
    given = [array("i", [start] * 30) for start in range(9)]
    assert [step.computed for step in planned(given, 128, 1000).passes] == [135, 135]


def test_no_sequences_need_no_pass() -> None:
    made = plan([], [], size=8, budget=8)
    assert (made.passes, made.cost) == ([], Cost())


@pytest.mark.parametrize(("budget", "computed"), [(100, 20 + 12 * 4), (20, 20 + 12 * 4), (0, 4 * (20 + 12))])
def test_a_budget_that_cannot_hold_the_prefix_means_computing_it_again(budget: int, computed: int) -> None:
    prefix = list(range(20))
    given = [array("i", [*prefix, 100 + index, *range(11)]) for index in range(4)]
    assert planned(given, 16, budget).cost.computed == computed


def test_a_cost_is_described_in_words() -> None:
    assert "3 computed" in describe(planned([array("i", [1, 2, 3])], 2, 9).cost)
