"""Prediction-powered means: labels of some documents correct a judge's scores of all."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.estimates import PoweredMean, mean_estimate, powered_mean

#: Labels, documents, the true rate, and how often the judge is right about right and about wrong answers.
SETTINGS = [
    (20, 300, 0.5, 0.9, 0.9),
    (20, 300, 0.05, 0.9, 0.97),
    (50, 500, 0.8, 0.95, 0.8),
    (50, 500, 0.3, 0.99, 0.98),
    (100, 400, 0.9, 0.9, 0.7),
    (100, 400, 0.5, 0.6, 0.6),
    (90, 100, 0.7, 0.9, 0.9),
]


def draw(rng: np.random.Generator, labels: int, documents: int, rate: float, right: float, wrong: float) -> PoweredMean:
    truth = rng.random(documents) < rate
    score = np.where(truth, rng.random(documents) < right, rng.random(documents) > wrong).astype(float)
    human = truth.astype(float)
    return powered_mean(human[:labels].tolist(), score[:labels].tolist(), score[labels:].tolist())


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_intervals_cover_the_rate_of_human_labels(setting: tuple[int, int, float, float, float]) -> None:
    rng = np.random.default_rng(20261118)
    drawn = [draw(rng, *setting) for _ in range(2000)]
    covered = np.mean([estimated.mean.covers(setting[2]) for estimated in drawn])
    assert covered >= 0.94  # 95 % but for the noise of 2,000 draws


def test_the_judges_scores_alone_would_not_cover_it() -> None:
    rng = np.random.default_rng(20261118)
    rate, right, wrong = 0.5, 0.9, 0.7
    covered = 0
    for _ in range(300):
        truth = rng.random(500) < rate
        score = np.where(truth, rng.random(500) < right, rng.random(500) > wrong).astype(float)
        covered += mean_estimate(score.tolist()).covers(rate)
    assert covered < 30


def test_a_good_judge_makes_intervals_narrower_than_the_labels_alone() -> None:
    rng = np.random.default_rng(1)
    widths = [
        (estimated.mean.high - estimated.mean.low, estimated.labels.high - estimated.labels.low)  # type: ignore[operator]
        for estimated in (draw(rng, 100, 1000, 0.3, 0.99, 0.98) for _ in range(50))
    ]
    assert np.mean([powered for powered, _ in widths]) < 0.6 * np.mean([plain for _, plain in widths])


def test_a_judge_that_knows_nothing_gets_no_weight() -> None:
    rng = np.random.default_rng(2)
    labels = (rng.random(400) < 0.6).astype(float).tolist()
    scores = (rng.random(400) < 0.5).astype(float).tolist()
    estimated = powered_mean(labels, scores, (rng.random(400) < 0.5).astype(float).tolist())
    assert estimated.weight < 0.1
    assert estimated.mean.value == pytest.approx(np.mean(labels), abs=0.02)


def test_the_bias_of_a_lenient_judge_is_taken_out() -> None:
    labels, scores = [1.0] * 30 + [0.0] * 30, [1.0] * 45 + [0.0] * 15
    estimated = powered_mean(labels, scores, [1.0] * 300 + [0.0] * 100)
    assert estimated.bias.value == pytest.approx(0.25)
    assert estimated.agreement.value == pytest.approx(0.75)
    assert estimated.mean.value == pytest.approx(0.5)


def test_few_labels_without_a_disagreement_do_not_say_that_the_judge_is_never_too_strict() -> None:
    rng, covered, runs = np.random.default_rng(3), 0, 300
    for _ in range(runs):  # the judge takes 3 % of the right answers for wrong ones
        drawn = draw(rng, 20, 100, 0.8, 0.97, 1.0)
        covered += drawn.bias.covers(-0.8 * 0.03)
    assert covered / runs >= 0.95
    always_wrong = powered_mean([1.0] * 12, [0.0] * 12, []).bias
    assert always_wrong.value == always_wrong.low == -1
    assert always_wrong.high is not None
    assert always_wrong.high > -0.9


def test_with_every_document_labelled_the_labels_are_the_estimate() -> None:
    estimated = powered_mean([1.0, 0.0] * 20, [1.0] * 40, [])
    assert (estimated.mean.value, estimated.weight) == (0.5, 0.0)


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(DataError, match="3 labels say too little about a judge; label at least 10 documents"):
        powered_mean([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0] * 50)
