"""Position bias: known answers, and the test of Stuart and Maxwell against statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import SquareTable

from multiform.errors import DataError
from multiform.statistics.position import position_bias, stuart_maxwell


def picks(rng, golds, *, knows, favours_first):
    """A model that knows some answers, and otherwise guesses, or takes the first."""
    guesses = np.where(rng.random(len(golds)) < favours_first, 0, rng.integers(0, 4, size=len(golds)))
    return np.where(rng.random(len(golds)) < knows, golds, guesses)


def test_a_model_that_prefers_the_first_position_is_found_out():
    rng = np.random.default_rng(0)
    golds = rng.integers(0, 4, size=300)
    bias = position_bias(picks(rng, golds, knows=0.4, favours_first=0.5), golds)
    assert bias.preferred == 0
    assert bias.positions[0].excess.interval[0] > 0.1
    assert bias.positions[0].recall > bias.positions[1].recall
    assert bias.p < 1e-6
    assert bias.recall_std > 0.1


def test_a_model_that_guesses_has_no_bias():
    rng, runs = np.random.default_rng(1), 300
    biases = []
    for _ in range(runs):
        golds = rng.integers(0, 4, size=200)
        biases.append(position_bias(picks(rng, golds, knows=0.4, favours_first=0.0), golds))
    assert 0.03 <= np.mean([bias.p < 0.05 for bias in biases]) <= 0.07
    covered = [position.excess.covers(0) for bias in biases for position in bias.positions]
    assert 0.935 <= np.mean(covered) <= 0.965


def test_skewed_golds_are_no_bias():
    golds = np.array([0] * 80 + [1] * 20)
    bias = position_bias(golds, golds)
    assert bias.p == 1
    assert all(position.excess.value == 0 for position in bias.positions)


def test_the_test_is_that_of_statsmodels():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 4, size=120), rng.integers(0, 4, size=120)
    first[:30] = 0
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    reference = SquareTable(table, shift_zeros=False).homogeneity(method="stuart_maxwell")
    assert stuart_maxwell(first, second) == pytest.approx(reference.pvalue)


def test_as_many_picks_as_golds():
    with pytest.raises(DataError, match="2 picks and 1"):
        position_bias([0, 1], [0])


def test_a_position_that_is_never_right_has_no_recall():
    bias = position_bias([0, 1, 2], [0, 1, 1])
    assert np.isnan(bias.positions[2].recall)


@pytest.mark.long
def test_documents_of_one_cluster_count_together():
    """A model that answers all questions about a passage alike, and has no preference among passages."""
    rng, runs, naive, clustered = np.random.default_rng(3), 300, 0, 0
    passages = np.repeat(np.arange(40), 5)
    for _ in range(runs):
        golds = rng.integers(0, 4, size=200)
        picked = rng.integers(0, 4, size=40)[passages]
        naive += position_bias(picked, golds).p < 0.05
        bias = position_bias(picked, golds, passages.tolist())
        clustered += bias.p < 0.05
    assert naive / runs > 0.2
    assert clustered / runs <= 0.07
    alone = position_bias(picked, golds)
    widths = [found.positions[0].excess.interval[1] - found.positions[0].excess.interval[0] for found in (bias, alone)]
    assert widths[0] > 1.3 * widths[1]


def test_a_cluster_for_each_document_changes_nothing():
    rng = np.random.default_rng(4)
    picked, golds = rng.integers(0, 4, size=(2, 60))
    assert stuart_maxwell(picked, golds, range(60)) == pytest.approx(stuart_maxwell(picked, golds))
