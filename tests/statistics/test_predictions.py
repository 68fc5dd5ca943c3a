"""Flips, agreement, calibration and position bias, against statsmodels and known answers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import SquareTable
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as reference_kappa

from multiform.errors import DataError
from multiform.statistics.means import document_scores
from multiform.statistics.predictions import (
    MISSING,
    agreement,
    calibration,
    fleiss_kappa,
    position_bias,
    rightness,
    stuart_maxwell,
)
from tests.statistics.simulated import forms


def test_shares_add_up_and_flips_are_those_of_all_pairs():
    right = forms(np.random.default_rng(0), 200, [0.7, 0.5, 0.6])
    shares = rightness(document_scores(right))
    assert shares.under_all.value + shares.under_some.value + shares.under_none.value == pytest.approx(1)
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert shares.flip_rate.value == pytest.approx(np.mean([right[:, a] != right[:, b] for a, b in pairs]))
    assert shares.flip_rate.covers(shares.flip_rate.value)


def test_partial_scores_have_no_flips():
    with pytest.raises(DataError, match="no flips"):
        rightness(document_scores([[0.5, 1], [0.1, 0]]))


def test_agreement_is_the_share_of_equal_pairs_and_nothing_agrees_with_a_missing_prediction():
    predictions = [[0, 0, 0], [1, 1, 2], [MISSING, MISSING, 3], [0, 1, 2]]
    estimate = agreement(document_scores([[1, 1, 1]] * 4), predictions)
    assert estimate.value == pytest.approx((1 + 1 / 3 + 0 + 0) / 4)


def test_kappa_is_that_of_statsmodels():
    predictions = np.random.default_rng(5).integers(0, 4, size=(60, 5))
    predictions[:, 1] = predictions[:, 0]
    assert fleiss_kappa(predictions) == pytest.approx(reference_kappa(aggregate_raters(predictions)[0]))
    assert np.isnan(fleiss_kappa([[1, 1], [1, 1]]))


def test_kappa_of_texts_that_are_all_different_takes_little_memory():
    tracemalloc.start()
    assert fleiss_kappa(np.arange(4000).reshape(-1, 2)) == pytest.approx(0, abs=1e-3)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**7


def test_predictions_that_are_missing_do_not_add_to_kappa():
    """Two forms that never name an answer together agree on nothing."""
    assert fleiss_kappa([[0, 0], [1, 1], [MISSING, MISSING], [MISSING, MISSING]]) < fleiss_kappa([[0, 0], [1, 1]])
    assert fleiss_kappa([[MISSING, MISSING]] * 3) == 0


def simulated(rng, n, shift):
    """Confidences, and answers that are right less often than these say."""
    confidences = rng.uniform(0.3, 0.95, size=n)
    return confidences, rng.random(n) < confidences - shift


def test_the_observed_error_is_the_weighted_sum_of_gaps():
    found = calibration([0.6, 0.6, 0.8, 0.8, 0.8], [1, 0, 0, 0, 1], bins=2)
    assert [(part.n, round(part.confidence, 3)) for part in found.bins] == [(2, 0.6), (3, 0.8)]
    assert found.observed == pytest.approx(2 / 5 * abs(1 / 2 - 0.6) + 3 / 5 * abs(1 / 3 - 0.8))


def test_the_order_of_documents_does_not_matter():
    """A model with few different confidences has many ties."""
    rng = np.random.default_rng(1)
    confidences = rng.choice([0.3, 0.5, 0.55, 0.7], size=200)
    right = rng.random(200) < confidences
    order = np.argsort(~right, kind="stable")  # right answers first
    assert calibration(confidences[order], right[order]) == calibration(confidences, right)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2])
def test_the_estimate_has_little_of_the_noise(shift):
    rng, n = np.random.default_rng(2), 300
    found = [calibration(*simulated(rng, n, shift), draws=100) for _ in range(150)]
    assert abs(np.mean([result.error.value for result in found]) - shift) < 0.025
    if shift < 0.1:  # where the bare sum of gaps is far too large
        assert np.mean([result.observed for result in found]) - shift > 0.025


@pytest.mark.long
@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2])
def test_the_interval_covers_the_error(shift):
    rng, runs = np.random.default_rng(4), 200
    errors = [calibration(*simulated(rng, 300, shift)).error for _ in range(runs)]
    assert np.mean([error.covers(shift) for error in errors]) >= 0.95
    assert np.mean([error.high for error in errors]) < shift + 0.17  # which is no empty promise


def test_a_badly_calibrated_model_is_told_from_a_calibrated_one():
    rng = np.random.default_rng(6)
    assert calibration(*simulated(rng, 1000, 0.0)).error.low == 0
    assert calibration(*simulated(rng, 1000, 0.2)).error.interval[0] > 0.05


def test_as_many_answers_as_confidences():
    with pytest.raises(DataError, match="2 confidences and 1 answers"):
        calibration([0.5, 0.5], [1])


def test_clusters_widen_the_interval():
    """Answers to the questions about a passage are right or wrong together."""
    rng, runs, covered, naive = np.random.default_rng(5), 150, 0, 0
    passages = np.repeat(np.arange(40), 10)
    for _ in range(runs):
        confidences = rng.uniform(0.3, 0.95, size=400)
        right = np.repeat(rng.random(40), 10) < confidences - 0.2
        covered += calibration(confidences, right, passages.tolist()).error.covers(0.2)
        naive += calibration(confidences, right).error.covers(0.2)
    assert naive / runs < 0.9
    assert covered / runs >= 0.93


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
