"""The expected calibration error and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.calibration import calibration


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
