"""Paired differences, against scipy, statsmodels, published formulas and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests

from multiform.statistics.differences import (
    difference_estimates,
    holm,
    mcnemar,
    paired_difference,
    paired_differences,
    sign_flip_test,
    spread_of,
)
from multiform.statistics.means import document_scores, form_means, pool_subjects
from tests.statistics.simulated import forms


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 5), (12, 2), (1, 30), (0, 6), (250, 199)])
def test_mcnemars_exact_test_is_that_of_statsmodels(first, second):
    reference = reference_mcnemar([[40, first], [second, 40]], exact=True).pvalue if first + second else 1.0
    assert float(mcnemar(first, second)) == pytest.approx(float(reference))


def test_the_sign_flip_test_is_scipys_permutation_test():
    differences = np.random.default_rng(3).normal(0.4, 1, size=11)
    reference = scipy.stats.permutation_test(
        (differences, np.zeros(11)), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples"
    )
    assert float(sign_flip_test(differences[:, None])[0]) == pytest.approx(reference.pvalue)


def test_the_sign_flip_test_of_rights_and_wrongs_is_mcnemars():
    differences = np.array([1.0] * 9 + [-1.0] * 3 + [0.0] * 50)
    assert float(sign_flip_test(differences[:, None])[0]) == pytest.approx(float(mcnemar(9, 3)))
    drawn = sign_flip_test(np.tile(differences[:, None], (3, 1)))[0]  # too many for all permutations
    assert drawn == pytest.approx(float(mcnemar(27, 9)), abs=0.002)


def test_holms_correction_is_that_of_statsmodels():
    p = np.random.default_rng(0).random(20) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_the_difference_of_rates_has_bonett_and_prices_interval():
    right = [[1, 1]] * 41 + [[1, 0]] * 14 + [[0, 1]] * 5 + [[0, 0]] * 20
    estimate = paired_difference(document_scores(right)).estimate
    p12, p21 = 15 / 82, 6 / 82  # one more document each way
    half = 1.959964 * np.sqrt((p12 + p21 - (p12 - p21) ** 2) / 82)
    assert estimate.value == pytest.approx(9 / 80)
    assert estimate.interval == pytest.approx((p12 - p21 - half, p12 - p21 + half), abs=1e-6)


def test_the_difference_of_other_scores_has_students_interval():
    values = np.random.default_rng(2).random((30, 2))
    estimate = paired_difference(document_scores(values)).estimate
    reference = scipy.stats.ttest_rel(values[:, 0], values[:, 1]).confidence_interval(0.95)
    assert estimate.interval == pytest.approx((reference.low, reference.high))


def test_two_forms_that_never_differ_are_not_taken_for_exactly_equal():
    difference = paired_difference(document_scores([[1, 1]] * 70 + [[0, 0]] * 30))
    assert difference.p == 1.0
    low, high = difference.estimate.interval
    assert low < -0.01 < 0.01 < high


def test_all_pairs_are_there_and_corrected_together():
    values = (np.random.default_rng(4).random((200, 4)) < [0.9, 0.5, 0.5, 0.5]).astype(float)
    pairs = paired_differences(document_scores(values))
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert [pair.p_holm for pair in pairs] == pytest.approx(holm([pair.p for pair in pairs]).tolist())
    assert {(pair.first, pair.second) for pair in pairs if pair.p_holm < 0.05} == {(0, 1), (0, 2), (0, 3)}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rates", "scores", "clustered", "group"])
def test_95_percent_intervals_of_differences_cover_95_percent(kind):
    rng, covered, runs = np.random.default_rng(11), 0, 1500
    for _ in range(runs):
        if kind == "rates":
            truth, scores = 0.05, document_scores(forms(rng, 200, [0.65, 0.6]))
        elif kind == "scores":
            shared = rng.beta(1, 1, size=(40, 1))
            truth, scores = 0.1, document_scores(shared + rng.exponential(0.2, size=(40, 2)) + [0.1, 0])
        elif kind == "group":
            parts = [document_scores(forms(rng, 60, rates)) for rates in ([0.7, 0.6], [0.4, 0.4])]
            truth, scores = 0.05, pool_subjects(parts, [1, 1])
        else:
            clusters = np.repeat(np.arange(40), rng.integers(1, 7, size=40))
            passage = rng.normal(size=(40, 2))[clusters]
            truth, scores = 0.0, document_scores(passage + rng.normal(size=passage.shape), clusters.tolist())
        (estimate,) = difference_estimates(form_means(scores), 0, 1)
        covered += estimate.covers(truth)
    assert 0.935 <= covered / runs <= 0.965


@pytest.mark.parametrize("kind", ["mcnemar", "sign flips", "clustered sign flips"])
def test_the_test_keeps_its_level(kind):
    rng, runs = np.random.default_rng(5), 1500
    if kind == "mcnemar":
        right = forms(rng, 150 * runs, [0.6, 0.6]).reshape(runs, 150, 2).astype(float)
        flips = right[:, :, 0] - right[:, :, 1]
        p = mcnemar((flips > 0).sum(axis=1), (flips < 0).sum(axis=1))
        assert (p < 0.05).mean() <= 0.055
        return
    # A test for each column, all with the same permutations
    noise = rng.exponential(size=(80, runs)) - rng.exponential(size=(80, runs))
    if kind == "clustered sign flips":
        noise = noise.reshape(20, 4, runs).sum(axis=1) + 2 * rng.normal(size=(20, runs))
    assert 0.04 <= (sign_flip_test(noise, permutations=999) < 0.05).mean() <= 0.06


def test_equal_models_differ_in_at_most_five_percent_of_runs():
    rng, runs = np.random.default_rng(8), 500
    found = [paired_difference(document_scores(forms(rng, 120, [0.7, 0.7]))).p < 0.05 for _ in range(runs)]
    assert np.mean(found) <= 0.05


def test_holm_bounds_the_probability_of_any_false_finding():
    rng, runs = np.random.default_rng(9), 400
    any_found = [
        min(pair.p_holm for pair in paired_differences(document_scores(forms(rng, 150, [0.6] * 5)))) < 0.05
        for _ in range(runs)
    ]
    assert np.mean(any_found) <= 0.06


def test_a_difference_of_rates_is_never_more_than_one():
    (pair,) = paired_differences(document_scores([[1, 0]] * 4 + [[1, 1]]))
    assert pair.estimate.value == pytest.approx(0.8)
    assert pair.estimate.high == 1.0
    assert spread_of(form_means(document_scores([[1, 0]] * 4 + [[1, 1]]))).spread.high == 1.0


def test_forms_that_differ_on_no_cluster_are_not_taken_for_equal_on_its_documents():
    """Both forms agree on all of 20 passages, with ten questions each, which says as much as 20 documents."""
    right = np.repeat(np.arange(20) % 2, 10)
    passages = np.repeat(np.arange(20), 10).tolist()
    clustered = paired_difference(document_scores(np.stack([right, right], axis=1), passages)).estimate
    independent = paired_difference(document_scores([[1, 1]] * 10 + [[0, 0]] * 10)).estimate
    assert clustered.interval[1] >= independent.interval[1]
    rng, runs, covered = np.random.default_rng(6), 500, 0
    for _ in range(runs):
        flipped = np.repeat(rng.random(20) < 0.05, 10)
        values = np.stack([np.where(flipped, 1, right), np.where(flipped, 0, right)], axis=1)
        covered += paired_difference(document_scores(values, passages)).estimate.covers(0.05)
    assert covered / runs >= 0.935


def test_forms_that_never_differ_on_a_small_subject_may_do_so_on_others_of_its_documents():
    """The subject counts as much as a large one; a tenth of all its documents is right under the first form only."""
    rng, runs, covered = np.random.default_rng(7), 500, 0
    for _ in range(runs):
        parts = []
        for size, flips in ((10, 0.1), (200, 0.3)):
            flipped, right = rng.random(size) < flips, rng.random(size) < 0.5
            parts.append(document_scores(np.stack([flipped | right, ~flipped & right], axis=1)))
        (estimate,) = difference_estimates(form_means(pool_subjects(parts, [1, 1])), 0, 1)
        covered += estimate.covers(0.2)
    assert covered / runs >= 0.935
