"""Best, worst and spread of many forms: coverage after the choice, by simulation. The order of models across forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from multiform.statistics.differences import kendall_tau, spread_of
from multiform.statistics.means import FormMeans, document_scores, form_means
from tests.statistics.simulated import forms


def test_quartiles_and_extremes_are_those_of_the_means():
    values = np.random.default_rng(0).random((50, 7)) + np.arange(7) / 10
    means = form_means(document_scores(values))
    spread = spread_of(means)
    assert (spread.highest, spread.lowest) == (int(means.values.argmax()), int(means.values.argmin()))
    assert spread.spread.value == pytest.approx(np.ptp(means.values))
    assert (spread.lower_quartile, spread.median, spread.upper_quartile) == pytest.approx(
        tuple(np.quantile(means.values, (0.25, 0.5, 0.75)))
    )
    assert spread.interquartile_range == pytest.approx(spread.upper_quartile - spread.lower_quartile)
    assert spread.low.covers(spread.low.value)
    assert spread.high.covers(spread.high.value)


def test_rates_of_two_clusters_are_not_expected_to_be_further_apart_than_1():
    scores = document_scores([[1, 0]] * 3 + [[0, 1]] * 2, clusters=["a"] * 3 + ["b"] * 2)
    assert spread_of(form_means(scores)).by_chance < 1


@pytest.mark.long
@pytest.mark.parametrize("rates", [[0.6] * 16, np.linspace(0.5, 0.62, 16).tolist(), [0.7] + [0.4] * 15])
def test_intervals_of_the_best_and_worst_form_cover_where_naive_ones_do_not(rates):
    rng, runs = np.random.default_rng(2), 300
    honest = {"best": 0, "highest": 0, "worst": 0, "lowest": 0, "spread": 0}
    naive = 0
    for _ in range(runs):
        means = form_means(document_scores(forms(rng, 150, rates, correlation=0.3)))
        spread = spread_of(means, draws=1000)
        best, worst = spread.high, spread.low
        honest["best"] += best.covers(rates[spread.highest])
        honest["highest"] += best.covers(max(rates))
        honest["worst"] += worst.covers(rates[spread.lowest])
        honest["lowest"] += worst.covers(min(rates))
        honest["spread"] += spread.spread.covers(max(rates) - min(rates))
        single = means.estimates()[spread.highest]
        naive += single.covers(rates[spread.highest])
    assert min(honest.values()) / runs >= 0.935
    if min(rates) == max(rates):
        assert naive / runs < 0.8


def test_the_interval_of_the_spread_covers_zero_for_a_model_that_is_blind_to_wording():
    rng, runs = np.random.default_rng(3), 200
    spreads = [spread_of(form_means(document_scores(forms(rng, 150, [0.6] * 8))), draws=1000) for _ in range(runs)]
    assert np.mean([spread.spread.low == 0 for spread in spreads]) >= 0.95
    assert np.mean([spread.p < 0.05 for spread in spreads]) <= 0.07
    assert np.mean([spread.spread.value for spread in spreads]) == pytest.approx(spreads[0].by_chance, rel=0.25)


def test_forms_that_never_differ_have_no_spread_and_an_upper_bound():
    spread = spread_of(form_means(document_scores([[1, 1, 1]] * 60 + [[0, 0, 0]] * 40)))
    assert (spread.spread.value, spread.spread.low, spread.p) == (0, 0, 1)
    assert 0.01 < spread.spread.interval[1] < 0.05


def test_a_clear_spread_is_found():
    rng = np.random.default_rng(1)
    spread = spread_of(form_means(document_scores(forms(rng, 300, [0.8, 0.5, 0.3, 0.5]))))
    assert (spread.highest, spread.lowest) == (0, 2)
    low, high = spread.spread.interval
    assert 0.35 < low < 0.5 < high < 0.65
    assert spread.p < 0.001


@pytest.mark.parametrize("n", [3, 10])
def test_a_few_documents_on_which_all_forms_differ_alike_are_not_taken_for_certain(n):
    spread = spread_of(form_means(document_scores([[1, 0]] * n)))
    exact = 2 * 0.5**n  # McNemar's
    assert 0.3 * exact < spread.p < 3 * exact


@pytest.mark.long
def test_one_sided_critical_values_grow_with_the_number_of_independent_forms():
    def lower_bound(number):
        nothing = np.zeros((number, number))
        means = FormMeans(
            values=np.zeros(number),
            covariance=np.eye(number),
            freedom=np.inf,
            freedoms=np.full(number, np.inf),
            n=100,
            rates=False,
            equivalent=100,
            both_right=nothing,
            unseen=nothing,
            skewness=np.zeros(number),
            shares=(None,) * number,
        )
        return -spread_of(means, draws=40_000).high.interval[0]

    assert lower_bound(2) == pytest.approx(2.24, abs=0.03)  # Šidák: the 0.975 ** (1 / 2) quantile
    assert lower_bound(32) == pytest.approx(3.16, abs=0.05)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.02, 0.98])
@pytest.mark.parametrize("n", [20, 50, 144])
@pytest.mark.parametrize("count", [2, 14])
def test_the_picked_form_is_covered_at_rare_rates(rate, n, count):
    rng, runs, covered = np.random.default_rng(0), 150, np.zeros(2)
    for _ in range(runs):
        spread = spread_of(form_means(document_scores(forms(rng, n, [rate] * count))), draws=1000)
        covered += [spread.high.covers(rate), spread.low.covers(rate)]
    assert (covered / runs >= 0.93).all()


def test_tau_is_scipys():
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.integers(0, 5, size=(2, 8))
        assert kendall_tau(first, second) == pytest.approx(scipy.stats.kendalltau(first, second).statistic, nan_ok=True)
