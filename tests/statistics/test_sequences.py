"""Confidence sequences cover at all times at once, and wherever a run stops it has seen a fair sample."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.estimates import mean_estimate
from multiform.statistics.sampling import document_order
from multiform.statistics.sequences import confidence_sequence, search_forms

SIZES = {"small": 300, "large": 2700}
SUBJECTS = {name: range(size) for name, size in SIZES.items()}
RATES = {"small": 0.9, "large": 0.3}


@pytest.mark.long
@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_it_covers_at_every_moment_at_once(mean):
    rng, runs, always = np.random.default_rng(0), 100, 0
    for _ in range(runs):
        sequence = confidence_sequence()
        for _ in range(12):  # the intervals are nested, so that the last one covers only if all did
            sequence = sequence.after(rng.random(30) < mean)
        always += sequence.estimate.covers(mean)
    assert always / runs >= 0.95


def test_scores_between_right_and_wrong_are_covered_as_well():
    rng, runs = np.random.default_rng(4), 60
    sequences = [confidence_sequence(rng.beta(0.5, 1.5, size=60)) for _ in range(runs)]
    assert np.mean([sequence.estimate.covers(0.25) for sequence in sequences]) >= 0.95


def test_stopping_when_an_ordinary_interval_excludes_the_truth_always_succeeds_in_the_end():
    """Why an ordinary interval must not be looked at after each document."""
    rng, runs, missed = np.random.default_rng(1), 100, 0
    for _ in range(runs):
        right = (rng.random(400) < 0.5).astype(float).tolist()
        looks = [mean_estimate(right[:n]) for n in range(10, 401, 10)]
        missed += any(not estimate.covers(0.5) for estimate in looks)
    assert missed / runs > 0.2


def test_it_is_not_much_wider_than_an_ordinary_interval():
    right = np.random.default_rng(2).random(2000) < 0.6
    ordinary = mean_estimate(right.astype(float).tolist())
    assert float(np.ptp(confidence_sequence(right).estimate.interval)) / 2 < 1.8 * float(np.ptp(ordinary.interval)) / 2


def test_scores_may_come_in_parts():
    scores = np.random.default_rng(3).random(60)
    whole, parts = confidence_sequence(scores), confidence_sequence(scores[:20]).after(scores[20:])
    assert whole.n == parts.n
    assert parts.low >= whole.low
    assert parts.high <= whole.high
    assert whole.estimate.value == pytest.approx(scores.mean())
    assert confidence_sequence().estimate.interval == (0, 1)


def test_a_score_outside_0_and_1_is_refused():
    with pytest.raises(DataError, match="not between 0 and 1"):
        confidence_sequence([0.5, 1.5])
    with pytest.raises(DataError, match="not between 0 and 1"):
        confidence_sequence([0.5, float("nan")])


def test_every_document_comes_once():
    order = document_order(SUBJECTS, seed=1)
    assert len(order) == len(set(order)) == 3000
    assert order != document_order(SUBJECTS, seed=2)
    equal = document_order(SUBJECTS, equal_subjects=True, seed=1)
    assert len(set(equal)) == len(equal)
    assert sum(subject == "small" for subject, _ in equal) == pytest.approx(len(equal) / 2, abs=40)


@pytest.mark.long
@pytest.mark.parametrize(("equal", "truth"), [(True, 0.6), (False, 0.36)])
def test_a_group_is_covered_at_every_moment_as_it_weighs_its_subjects(equal, truth):
    rng, runs, covered, otherwise = np.random.default_rng(0), 60, 0, 0
    for seed in range(runs):
        right = {name: rng.random(size) < RATES[name] for name, size in SIZES.items()}
        for weighed in (equal, not equal):
            order = document_order(SUBJECTS, equal_subjects=weighed, seed=seed)[:400]
            sequence = confidence_sequence()
            for start in range(0, 400, 50):
                sequence = sequence.after([right[subject][doc] for subject, doc in order[start : start + 50]])
            covers = sequence.estimate.covers(truth)
            covered, otherwise = covered + (covers and weighed == equal), otherwise + (covers and weighed != equal)
    assert covered / runs >= 0.95
    assert otherwise / runs < 0.05  # the other order answers another question


def searched(scores):
    return search_forms(lambda docs, forms: scores[np.ix_(docs, forms)], documents=len(scores), forms=scores.shape[1])


@pytest.mark.parametrize(("equal", "best"), [(True, 0), (False, 1)])
def test_the_best_form_of_a_group_is_that_of_its_weights(equal, best):
    """The first form is much better at the small subject, the second a little at the large one."""
    rates = {"small": [0.9, 0.3, 0.2], "large": [0.5, 0.7, 0.2]}
    rng, found = np.random.default_rng(1), 0
    for seed in range(20):
        right = {name: rng.random((size, 3)) < rates[name] for name, size in SIZES.items()}
        order = document_order(SUBJECTS, equal_subjects=equal, seed=seed)
        scores = np.array([right[subject][doc] for subject, doc in order])
        search = searched(scores)
        assert best in search.best
        found += search.best == [best] and search.worst == [2]
    assert found >= 15
