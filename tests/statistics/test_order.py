"""The order of documents: wherever a run stops, what it has seen is a fair sample of a task or group."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.statistics.elimination import search_forms
from multiform.statistics.order import document_order
from multiform.statistics.sequences import confidence_sequence

SIZES = {"small": 300, "large": 2700}
SUBJECTS = {name: range(size) for name, size in SIZES.items()}
RATES = {"small": 0.9, "large": 0.3}


def test_every_document_comes_once():
    order = document_order(SUBJECTS, seed=1)
    assert len(order) == len(set(order)) == 3000
    assert order != document_order(SUBJECTS, seed=2)
    equal = document_order(SUBJECTS, equal_subjects=True, seed=1)
    assert len(set(equal)) == len(equal)
    assert sum(subject == "small" for subject, _ in equal) == pytest.approx(len(equal) / 2, abs=40)


@pytest.mark.parametrize(("equal", "truth"), [(True, 0.6), (False, 0.36)])
def test_a_group_is_covered_at_every_moment_as_it_weighs_its_subjects(equal, truth):
    rng, runs, covered, otherwise = np.random.default_rng(0), 60, 0, 0
    for seed in range(runs):
        right = {name: rng.random(size) < RATES[name] for name, size in SIZES.items()}
        for weighed in (equal, not equal):
            order = document_order(SUBJECTS, equal_subjects=weighed, seed=seed)[:400]
            sequence = confidence_sequence()
            for start in range(0, 400, 50):
                sequence = sequence.updated([right[subject][doc] for subject, doc in order[start : start + 50]])
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
