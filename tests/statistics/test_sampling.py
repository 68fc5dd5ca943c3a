"""Samples of documents without replacement: every document has the same chance, and strata have their shares."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from multiform.errors import UsageError
from multiform.statistics.means import dataset_estimates, document_scores
from multiform.statistics.sampling import draw_documents


@pytest.mark.parametrize("strata", [None, ["a"] * 7 + ["b"] * 30 + ["c"] * 3])
def test_every_document_has_the_same_chance(strata):
    runs, drawn = 4000, Counter[int]()
    for seed in range(runs):
        drawn.update(draw_documents(range(40), 10, strata=strata, seed=seed))
    assert sum(drawn.values()) == 10 * runs
    assert all(abs(drawn[document] / runs - 0.25) < 0.035 for document in range(40))


def test_a_seed_gives_one_sample_and_another_seed_another():
    assert draw_documents(range(1000), 50, seed=1) == draw_documents(range(1000), 50, seed=1)
    assert draw_documents(range(1000), 50, seed=1) != draw_documents(range(1000), 50, seed=2)


@pytest.mark.parametrize("strata", [None, [index % 7 for index in range(500)]])
def test_a_larger_sample_contains_a_smaller_one(strata):
    small, large = (draw_documents(range(500), number, strata=strata) for number in (40, 90))
    assert len(small) == 40
    assert set(small) < set(large)
    assert large == sorted(large)


def test_strata_have_their_shares_although_the_file_is_sorted():
    strata = ["physics"] * 300 + ["law"] * 150 + ["art"] * 50
    for seed in range(50):
        counts = Counter(strata[document] for document in draw_documents(range(500), 50, strata=strata, seed=seed))
        assert all(abs(counts[name] - share) <= 1 for name, share in {"physics": 30, "law": 15, "art": 5}.items())


def test_more_documents_than_there_are_give_all():
    assert draw_documents(range(5), 100) == [0, 1, 2, 3, 4]
    assert draw_documents([7, 3, 9], 2) in ([7, 3], [7, 9], [3, 9])


def test_wrong_input_is_refused():
    with pytest.raises(UsageError, match="cannot draw 0 documents"):
        draw_documents(range(5), 0)
    with pytest.raises(UsageError, match="2 strata for 5 documents"):
        draw_documents(range(5), 3, strata=["a", "b"])


def test_a_sample_of_a_sorted_dataset_is_fair_where_its_first_rows_are_not():
    """The interval of the whole dataset covers its score; stratified samples are nearer to it than random ones."""
    right = np.repeat([1.0, 0.0], [350, 150])
    strata = ["easy"] * 350 + ["hard"] * 150
    covered, errors = 0, {"random": 0.0, "stratified": 0.0}
    for seed in range(300):
        for name, column in (("random", None), ("stratified", strata)):
            sample = draw_documents(range(500), 100, strata=column, seed=seed)
            (estimate,) = dataset_estimates(document_scores(right[sample]), 500)
            errors[name] += (estimate.value - 0.7) ** 2
            covered += name == "random" and estimate.covers(0.7)
    assert not dataset_estimates(document_scores(right[:100]), 500)[0].covers(0.7)
    assert covered / 300 >= 0.93
    assert errors["stratified"] < errors["random"] / 10
