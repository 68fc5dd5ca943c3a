"""Plans: every token that is needed, once, and no more cached than the budget allows."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multiform.models.torch.plan import Cost, Plan, describe, plan
from multiform.models.torch.tree import Tokens

#: Few different tokens make many common prefixes.
sequences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=30).map(lambda ids: array("i", ids)), min_size=1, max_size=25
)
sizes = st.integers(1, 40)
budgets = st.integers(0, 40)


def nodes(given: list[Tokens]) -> int:
    """The nodes of the prefix tree, counted in the plainest way."""
    return len({tuple(tokens[:depth]) for tokens in given for depth in range(1, len(tokens) + 1)})


def planned(given: list[Tokens], size: int, budget: int, needed_from: list[int] | None = None) -> Plan:
    return plan(given, needed_from or [0] * len(given), size=size, budget=budget)


def seen(result: Plan) -> list[tuple[int, tuple[int, ...], bool]]:
    """Simulates the plan: for each computed token its branch, all tokens that it sees, and whether it is new."""
    computed = []
    cached: list[int] = []
    for step in result.passes:
        assert len(cached) == step.cached
        cache = list(cached)
        for chunk in step.chunks:
            tokens = result.branches[chunk.branch].tokens
            prefix = [cache[position] for span in chunk.prefix for position in range(*span)]
            for depth in range(chunk.start, chunk.stop):
                visible = (*prefix, *tokens[chunk.start : depth + 1])
                computed.append((chunk.branch, visible, depth >= chunk.new_from))
            cache.extend(tokens[chunk.start : chunk.stop])
        cached = [cache[position] for span in step.keep for position in range(*span)]
    assert cached == []
    return computed


@given(sequences, sizes, budgets)
def test_every_token_sees_its_own_prefix_and_nothing_else(given: list[Tokens], size: int, budget: int) -> None:
    result = planned(given, size, budget)
    for branch, visible, _ in seen(result):
        assert visible == tuple(result.branches[branch].tokens[: len(visible)])


@given(sequences, sizes, budgets)
def test_every_node_is_computed_once_and_again_only_where_it_could_not_stay_cached(
    given: list[Tokens], size: int, budget: int
) -> None:
    result = planned(given, size, budget)
    new = [visible for _, visible, fresh in seen(result) if fresh]
    assert len(new) == len(set(new)) == nodes(given) == result.cost.nodes
    assert result.cost.computed == len(seen(result))
    if budget >= max(map(len, given)):
        assert result.cost.computed == result.cost.nodes


@given(sequences, sizes, budgets)
def test_the_budget_is_respected(given: list[Tokens], size: int, budget: int) -> None:
    result = planned(given, size, budget)
    assert all(step.cached <= budget for step in result.passes)
    assert result.cost.cached <= budget


@given(sequences, sizes, budgets)
@example([array("i", [1] * 30)], 4, 0)
def test_a_pass_is_much_larger_than_asked_only_where_the_budget_is_too_small(
    given: list[Tokens], size: int, budget: int
) -> None:
    longest = max(map(len, given))
    for step in planned(given, size, budget).passes:
        even = 1.5 * size
        assert step.computed_tokens <= (even if budget >= longest else max(2 * even, longest))


@given(sequences, sizes, budgets, st.randoms(use_true_random=False))
def test_the_order_of_the_sequences_makes_no_difference(
    given: list[Tokens], size: int, budget: int, numbers: random.Random
) -> None:
    shuffled = numbers.sample(given, len(given))
    assert planned(shuffled, size, budget).cost == planned(given, size, budget).cost


@given(sequences, st.data())
def test_every_output_that_a_request_needs_is_read_once(given: list[Tokens], data: st.DataObject) -> None:
    needed_from = [data.draw(st.integers(0, len(tokens) - 1)) for tokens in given]
    result = planned(given, 8, 40, needed_from)
    read: dict[int, list[int]] = {index: [] for index in range(len(given))}
    for branch in result.branches:
        for request, start, stop in branch.needed:
            assert branch.shared <= start < stop <= len(branch.tokens)
            assert given[request][:stop] == branch.tokens[:stop]
            read[request] += range(start, stop)
    assert {index: sorted(depths) for index, depths in read.items()} == {
        index: list(range(needed_from[index], len(tokens))) for index, tokens in enumerate(given)
    }


@given(sequences)
def test_every_request_belongs_to_one_branch(given: list[Tokens]) -> None:
    branches = planned(given, 8, 40).branches
    assert sorted(member for branch in branches for member in branch.requests) == list(range(len(given)))
    assert all(given[member] == branch.tokens for branch in branches for member in branch.requests)


def test_no_pass_is_small_where_everything_can_stay_cached() -> None:
    given = [array("i", [start] * 30) for start in range(9)]
    assert [step.computed_tokens for step in planned(given, 128, 1000).passes] == [135, 135]


def test_no_sequences_need_no_pass() -> None:
    result = plan([], [], size=8, budget=8)
    assert (result.passes, result.cost) == ([], Cost())


@pytest.mark.parametrize(("budget", "computed"), [(100, 20 + 12 * 4), (20, 20 + 12 * 4), (0, 4 * (20 + 12))])
def test_a_budget_that_cannot_hold_the_prefix_means_computing_it_again(budget: int, computed: int) -> None:
    prefix = list(range(20))
    given = [array("i", [*prefix, 100 + index, *range(11)]) for index in range(4)]
    assert planned(given, 16, budget).cost.computed == computed


def test_a_cost_is_described_in_words() -> None:
    assert "3 computed" in describe(planned([array("i", [1, 2, 3])], 2, 9).cost)
