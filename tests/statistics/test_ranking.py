"""The order of models across forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from multiform.errors import DataError
from multiform.statistics.ranking import kendall_tau, rank_stability


def test_tau_is_scipys():
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.integers(0, 5, size=(2, 8))
        assert kendall_tau(first, second) == pytest.approx(scipy.stats.kendalltau(first, second).statistic, nan_ok=True)


def test_a_reversal_is_found_with_its_significance():
    right = np.zeros((2, 100, 3))
    right[0, :80, 0], right[1, :50, 0] = 1, 1  # the first model leads
    right[0, :40, 1], right[1, :75, 1] = 1, 1  # the second leads
    right[0, :61, 2], right[1, :60, 2] = 1, 1  # hardly any difference
    stability = rank_stability(right)
    assert [(r.better, r.form, r.reversed_under, r.significant) for r in stability.reversals] == [
        (0, 0, 1, True),
        (1, 1, 2, False),
    ]
    assert stability.reversal_rate == pytest.approx(2 / 3)
    assert stability.significant_rate == pytest.approx(1 / 3)
    assert stability.mean_tau == pytest.approx(-1 / 3)
    assert stability.min_tau == -1
    assert len(rank_stability(right, at_least=0.02).reversals) == 1


def test_scores_between_right_and_wrong_are_tested_by_permutation():
    rng = np.random.default_rng(1)
    scores = rng.random((2, 60, 2)) * 0.1
    scores[0, :, 0] += 0.3
    scores[1, :, 1] += 0.3
    (reversal,) = rank_stability(scores).reversals
    assert reversal.significant


def test_a_stable_order_has_no_reversals():
    scores = np.random.default_rng(2).random((3, 50, 4)) + np.arange(3)[:, None, None]
    stability = rank_stability(scores)
    assert (stability.reversals, stability.mean_tau) == ((), 1)


def test_one_model_has_no_order():
    with pytest.raises(DataError, match="two or more models"):
        rank_stability(np.zeros((1, 10, 2)))
