"""The search for the best and the worst of many forms: its error, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.elimination import new_search, search_forms
from tests.statistics.simulated import forms


def searched(rng, rates, documents, **options):
    scores = forms(rng, documents, rates)
    return search_forms(
        lambda positions, wanted: scores[np.ix_(positions, wanted)], documents=documents, forms=len(rates), **options
    )


def test_the_best_of_32_forms_is_found_with_a_third_of_the_evaluations():
    rng, documents, runs = np.random.default_rng(0), 1500, 12
    found, evaluations = 0, []
    for _ in range(runs):
        rates = rng.permutation([0.85, *np.linspace(0.45, 0.75, 30), 0.35])
        search = searched(rng, rates, documents)
        assert not search.wanted
        found += search.best == [int(rates.argmax())] and search.worst == [int(rates.argmin())]
        evaluations.append(search.evaluations)
    assert found / runs >= 0.95
    assert max(evaluations) <= 32 * documents / 3


def test_the_best_stays_among_the_candidates_as_often_as_promised():
    rng, runs, delta = np.random.default_rng(1), 80, 0.2
    kept = [searched(rng, [0.6] * 8, 200, delta=delta, block=50) for _ in range(runs)]
    assert np.mean([0 in search.best and 5 in search.worst for search in kept]) >= 1 - delta


def test_a_budget_is_not_exceeded_and_what_is_not_known_is_not_claimed():
    search = searched(np.random.default_rng(2), np.linspace(0.5, 0.6, 8), 1000, budget=400)
    assert search.evaluations <= 400
    assert len(search.best) > 1
    assert search.wanted


def test_wanted_forms_are_those_that_are_still_in_question():
    scores = np.tile([1.0, 0.5, 0.5, 0.0], (60, 1))
    search = new_search(4).updated(scores)
    assert (search.best, search.worst, search.wanted) == ([0], [3], [])
    assert search.evaluations == 240


def test_wrong_input_is_refused():
    with pytest.raises(DataError, match="scores of 3 forms, where 2 are wanted"):
        new_search(2).updated([[1, 0, 1]])
    with pytest.raises(DataError, match="not between 0 and 1"):
        new_search(2).updated([[1, 2]])
    with pytest.raises(DataError, match="cannot search 1 forms"):
        new_search(1)
