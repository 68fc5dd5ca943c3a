"""The search for the best and the worst of many forms: its error, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.sequences import new_search, search_forms
from tests.statistics.simulated import forms


def search_scores(scores, **options):
    documents, count = scores.shape
    return search_forms(lambda rows, chosen: scores[np.ix_(rows, chosen)], documents=documents, forms=count, **options)


def searched(rng, rates, documents, **options):
    return search_scores(forms(rng, documents, rates), **options)


def test_the_best_of_32_forms_is_found_with_a_third_of_the_evaluations():
    rng, documents, runs = np.random.default_rng(0), 1500, 12
    found, evaluations = 0, []
    for _ in range(runs):
        rates = rng.permutation([0.85, *np.linspace(0.45, 0.75, 30), 0.35])
        search = searched(rng, rates, documents)
        assert not search.undecided_forms
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
    assert search.undecided_forms


def test_wanted_forms_are_those_that_are_still_in_question():
    scores = np.tile([1.0, 0.5, 0.5, 0.0], (60, 1))
    search = new_search(4).after(scores)
    assert (search.best, search.worst, search.undecided_forms) == ([0], [3], [])
    assert search.evaluations == 240


def test_wrong_input_is_refused():
    with pytest.raises(DataError, match="scores of 3 forms, where 2 are wanted"):
        new_search(2).after([[1, 0, 1]])
    with pytest.raises(DataError, match="not between 0 and 1"):
        new_search(2).after([[1, 2]])
    with pytest.raises(DataError, match="not between 0 and 1"):
        new_search(2).after([[float("nan"), 1.0]])
    with pytest.raises(DataError, match="cannot search 1 forms"):
        new_search(1)


def halving(scores, budget):
    """The best and the worst form by successive halving down to one each."""
    race, position, totals, counts = np.arange(scores.shape[1]), 0, np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    rounds = int(np.log2(scores.shape[1]))
    for _ in range(rounds):
        step = int(budget / rounds // len(race))
        totals[race] += scores[position : position + step][:, race].sum(axis=0)
        counts[race] += step
        position += step
        ordered = race[np.argsort(totals[race] / counts[race])]
        half = max(1, len(race) // 4)
        race = np.unique([*ordered[:half], *ordered[-half:]])
    means = totals[race] / counts[race]
    return race[means.argmax()], race[means.argmin()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("deviation", "count", "budget"),
    [(0.03, 8, 1600), (0.03, 32, 1600), (0.05, 32, 1600), (0.08, 32, 1600), (0.03, 32, 6400), (0.05, 32, 6400)],
)
def test_a_budget_picks_better_than_equal_shares_and_halving_and_measures_without_bias(deviation, count, budget):
    rng, documents, runs = np.random.default_rng(0), 1000, 60
    regrets, biases = {"equal": 0.0, "halving": 0.0, "search": 0.0}, []
    for _ in range(runs):
        rates = np.clip(rng.normal(0.5, deviation, count), 0.02, 0.98)
        scores = forms(rng, documents, rates).astype(float)
        search = search_scores(scores, budget=budget, block=16)
        assert search.evaluations <= budget
        equal = scores[: budget // count].mean(axis=0)
        picks = {
            "equal": (equal.argmax(), equal.argmin()),
            "halving": halving(scores, budget),
            "search": search.best_and_worst,
        }
        for name, (best, worst) in picks.items():
            regrets[name] += (rates.max() - rates[best] + rates[worst] - rates.min()) / runs
        best, worst = search.best_and_worst
        biases.append((search.means[best] - search.means[worst] - rates[best] + rates[worst],
                       search.spread - rates[best] + rates[worst]))  # fmt: skip
    assert regrets["search"] <= regrets["halving"] + 0.003
    assert regrets["search"] <= regrets["equal"]
    raw, measured = np.mean(biases, axis=0)
    assert raw > 0.015
    assert abs(measured) < 0.012


@pytest.mark.slow
def test_no_search_of_500_loses_the_best_or_the_worst_form():
    rng, missed = np.random.default_rng(3), 0
    for _ in range(500):
        rates = np.clip(rng.normal(0.5, rng.choice([0.0, 0.03, 0.08]), 8), 0.02, 0.98)
        search = searched(rng, rates, 400, budget=1600, block=16)
        best, worst = (set(np.flatnonzero(rates == end)) for end in (rates.max(), rates.min()))  # several in a tie
        missed += not best & set(search.best) or not worst & set(search.worst)
    assert missed == 0
