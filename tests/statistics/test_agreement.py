"""Flips and agreement, against statsmodels and known answers."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as reference_kappa

from multiform.errors import DataError
from multiform.statistics.agreement import MISSING, agreement, fleiss_kappa, rightness
from multiform.statistics.scores import document_scores
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


def test_predictions_that_are_missing_do_not_add_to_kappa():
    """Two forms that never name an answer together agree on nothing."""
    assert fleiss_kappa([[0, 0], [1, 1], [MISSING, MISSING], [MISSING, MISSING]]) < fleiss_kappa([[0, 0], [1, 1]])
    assert fleiss_kappa([[MISSING, MISSING]] * 3) == 0
