"""Shared prefixes: which sequences are grouped by a common prefix."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from multiform.models.torch.tree import Tokens, shared_prefixes

sequences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=20).map(lambda ids: array("i", ids)), min_size=1, max_size=25
).map(sorted)


@given(sequences)
def test_every_sequence_keeps_a_token_of_its_own_and_shares_its_prefix(given: list[Tokens]) -> None:
    prefixes = shared_prefixes(given)
    for tokens, prefix in zip(given, prefixes, strict=True):
        assert 0 <= prefix < len(tokens)
        same = [other for other in given if other[:prefix] == tokens[:prefix]]
        assert prefix == 0 or len(same) > 1


def test_two_groups_have_their_own_prefixes() -> None:
    first = [array("i", [1, *range(50), 100 + end]) for end in range(5)]
    second = [array("i", [2, *range(30), 100 + end]) for end in range(5)]
    assert shared_prefixes([*first, *second]) == [51] * 5 + [31] * 5


def test_a_small_group_after_another_does_not_take_its_prefix_away() -> None:
    small = [array("i", [1, 1, 5]), array("i", [1, 2, 5])]
    large = [array("i", [1, 3, *range(40), end]) for end in range(6)]
    assert shared_prefixes([*small, *large])[2:] == [42] * 6


def test_a_group_within_a_group_gets_a_longer_prefix_where_that_pays() -> None:
    outer = [array("i", [*range(20), 50 + end]) for end in range(5)]
    inner = [array("i", [*range(20), 60, *range(30), end]) for end in range(9)]
    assert shared_prefixes([*outer, *inner]) == [20] * 5 + [51] * 9


def test_sequences_that_are_all_different_share_nothing() -> None:
    assert shared_prefixes([array("i", [start, 1, 2]) for start in range(4)]) == [0, 0, 0, 0]
