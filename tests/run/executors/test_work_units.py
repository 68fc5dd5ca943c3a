"""Sub-trees: cut where little is shared, balanced, and without much that is computed twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest
from multiform.run.executors import Unit
from multiform.run.executors.work_units import MAX_OVERHEAD, DocRef, halves, smallest_range, subtrees, tree_tokens


def few_shot(task: str, docs: int, *, prefix: int = 200, choices: int = 4) -> list[Request]:
    """The requests of a task whose prompts begin with the same few-shot examples."""
    shots = f"{task}: an example of a question with its answer.\n" * (prefix // 10)
    return [
        LoglikelihoodRequest(f"{shots}Question {doc * 7919 % 1000}: what is it?\nAnswer:", f" choice {choice}")
        for doc in range(docs)
        for choice in range(choices)
    ]


def tokens_alone(parts: Sequence[Unit]) -> int:
    return sum(map(tree_tokens, parts))


def test_every_request_is_in_one_sub_tree() -> None:
    asked = few_shot("a", 30) + few_shot("b", 50)
    units: list[Unit] = [asked, [RollingRequest("text")], [GenerationRequest.of("Say", {})]]
    parts = [part for unit in units for part in subtrees(unit, 3)]
    assert sorted(map(repr, (request for part in parts for request in part))) == sorted(
        map(repr, [*asked, RollingRequest("text"), GenerationRequest.of("Say", {})])
    )
    assert all(len({type(request) for request in part}) == 1 for part in parts)


def test_tasks_are_cut_apart_before_their_few_shot_prefix_is() -> None:
    parts = subtrees([*few_shot("a", 20), *few_shot("b", 20), *few_shot("c", 20), *few_shot("d", 20)], 1)
    first_words = [{request.context[:1] for request in part} for part in parts]  # type: ignore[union-attr]
    assert sorted(map(sorted, first_words)) == [["a"], ["b"], ["c"], ["d"]]


def test_the_choices_of_a_document_stay_together() -> None:
    parts = subtrees(few_shot("a", 40, prefix=20), 4)
    docs = [{request.context for request in part} for part in parts]  # type: ignore[union-attr]
    assert len(parts) >= 4
    assert sum(map(len, docs)) == 40


@pytest.mark.parametrize("workers", [2, 8])
def test_cuts_add_few_tokens_where_every_worker_has_something_to_do(workers: int) -> None:
    asked = [request for task in "abcdefgh" for request in few_shot(task, 200)]
    whole = tokens_alone(subtrees(asked, 0))
    parts = subtrees(asked, workers)
    assert tokens_alone(parts) <= (1 + MAX_OVERHEAD) * whole
    assert len(parts) >= workers


def test_parts_are_balanced_and_the_largest_comes_first() -> None:
    parts = subtrees(few_shot("a", 300, prefix=10), 2)
    sizes = [tree_tokens(part) for part in parts]
    assert len(sizes) == 8
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < 3 * sizes[-1]


def test_a_small_run_is_cut_for_idle_workers_all_the_same() -> None:
    """Two workers that each compute the prefix are done sooner than one that computes everything."""
    parts = subtrees(few_shot("a", 100, prefix=200), 2)
    assert len(parts) == 2


def test_nothing_is_cut_that_shares_nearly_everything() -> None:
    parts = subtrees(few_shot("a", 1, prefix=2000), 2)
    assert len(parts) == 1


def test_no_requests_are_no_sub_trees() -> None:
    assert subtrees([], 2) == []


def test_completions_count_by_their_limit() -> None:
    short, long = (tree_tokens([GenerationRequest.of("Say", {"max_tokens": n})]) for n in (10, 500))
    assert long - short == 490


requests_of_a_unit = st.lists(
    st.builds(LoglikelihoodRequest, st.text("ab", max_size=12), st.text("cd", max_size=3)),
    min_size=2,
    max_size=12,
    unique=True,
)


@given(requests_of_a_unit)
def test_halves_hold_everything_and_neither_is_empty(unit: Unit) -> None:
    parts = halves(unit)
    assert [bool(part) for part in parts] == [True, True]
    assert {request for part in parts for request in part} == set(unit)
    assert sum(map(len, parts)) == len(unit)


def test_halves_of_documents_keep_the_forms_of_a_document_together_to_the_last() -> None:
    refs = [DocRef(form, position) for form in "ab" for position in range(2)]
    assert halves(refs) == [[DocRef("a", 0), DocRef("b", 0)], [DocRef("a", 1), DocRef("b", 1)]]
    assert halves(refs[::2]) == [[DocRef("a", 0)], [DocRef("b", 0)]]


def contexts(*texts: str) -> list[list[LoglikelihoodRequest]]:
    """A document for each text, with two choices."""
    return [[LoglikelihoodRequest(text, choice) for choice in (" a", " b")] for text in texts]


def test_ranges_are_as_large_as_neighbours_share_prefixes() -> None:
    shots = "An example, and another one. " * 20
    assert smallest_range(contexts(*(f"{shots}Question {number}" for number in range(64)))) == 1
    assert smallest_range(contexts(*(f"{number} {shots}Question" for number in range(64)))) == 1
    passages = [f"{number // 4} {shots}Question {number}" for number in range(64)]
    assert smallest_range(contexts(*passages)) == 4
    assert smallest_range(contexts(*sorted(passages, key=lambda text: text[-1]))) is None


@given(requests_of_a_unit, st.integers(1, 5))
def test_sub_trees_hold_everything_once(unit: Unit, workers: int) -> None:
    parts = subtrees(unit, workers)
    assert sorted(map(repr, (request for part in parts for request in part))) == sorted(map(repr, unit))
    assert all(parts)
