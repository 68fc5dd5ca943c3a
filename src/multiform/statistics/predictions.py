"""What models predict: whether forms agree on single documents, calibration, and position bias.

Expected calibration error: how far the confidence in choices is from how often they are right. Documents are binned by
confidence, with about equally many in each bin; those of the same confidence share a bin, so that the order of
documents does not matter. Even a perfectly calibrated model has gaps by chance. The estimate is the error whose gaps
would, with this noise, add up to the observed ones; it is 0 where noise alone explains them. The lower bound of the
interval subtracts what noise alone may add up to, and the upper bound adds the normal error of the weighted sum of
gaps. Where documents are clustered, the noise is larger by the design effect of all gaps together (Rao and Scott).

Position bias: a model without bias picks each position among the choices as often as it is right, even where its picks
are wrong; the test of Stuart and Maxwell says whether the two distributions differ. The spread of the recalls is RStd
of Zheng et al. (arXiv 2309.03882).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, ndtr, ndtri

from multiform.errors import DataError
from multiform.statistics.differences import difference_estimates
from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.means import Array, DocumentScores, Indexes, cluster_sums, document_scores, form_means

#: Stands for a prediction that could not be extracted, which agrees with no other.
MISSING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rightness:
    """Shares of the documents that are right under all forms, under some and under none."""

    under_all: Estimate
    under_some: Estimate
    under_none: Estimate
    #: How often two forms differ on a document: one right, the other wrong.
    flip_rate: Estimate


def rightness(scores: DocumentScores) -> Rightness:
    """How the forms get documents right together; for scores that are right or wrong.

    >>> from multiform.statistics.means import document_scores
    >>> shares = rightness(document_scores([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 0]]))
    >>> shares.under_all.value, shares.under_some.value, shares.under_none.value, round(shares.flip_rate.value, 4)
    (0.25, 0.25, 0.5, 0.1667)
    """
    if not scores.binary:
        raise DataError("scores between right and wrong have no flips", hint="use a metric such as acc")
    forms = scores.values.shape[1]
    right = scores.values.sum(axis=1)
    pairs = forms * (forms - 1) / 2
    return Rightness(
        under_all=scores.mean_of(right == forms),
        under_some=scores.mean_of((right > 0) & (right < forms)),
        under_none=scores.mean_of(right == 0),
        flip_rate=scores.mean_of(right * (forms - right) / pairs),
    )


def agreement(scores: DocumentScores, predictions: ArrayLike) -> Estimate:
    """How often two forms lead to the same prediction: the share of pairs of forms, averaged over documents.

    `predictions` has a row for each document of `scores` and a column for each form, such as the index of the choice.
    """
    return scores.mean_of(_agreement(np.asarray(predictions, dtype=np.int64)))


def _agreement(codes: Indexes) -> Array:
    """For each document, the share of pairs of forms that lead to the same prediction."""
    forms, equal = codes.shape[1], np.zeros(len(codes))
    for first in range(forms):
        agrees = (codes[:, first + 1 :] == codes[:, [first]]) & (codes[:, [first]] != MISSING)
        equal += agrees.sum(axis=1)
    return np.asarray(equal / (forms * (forms - 1) / 2))


def fleiss_kappa(predictions: ArrayLike) -> float:
    """Fleiss' kappa: agreement beyond what the frequencies of the predictions alone would give.

    1 is perfect agreement, 0 that of chance. Not a number where there is one prediction only. A prediction that is
    missing agrees with no other, not even by chance.

    >>> fleiss_kappa([[0, 0], [1, 1], [0, 1], [1, 0]])
    0.0
    """
    codes = np.asarray(predictions, dtype=np.int64)
    _, counts = np.unique(codes[codes != MISSING], return_counts=True)
    observed, expected = float(_agreement(codes).mean()), float(((counts / codes.size) ** 2).sum())
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Documents of similar confidence."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The expected calibration error, and the bins that it is computed from, for a reliability diagram."""

    #: The error without what noise adds to it.
    error: Estimate
    #: The weighted sum of the gaps of the bins as they are observed, which noise makes too large.
    observed: float
    bins: tuple[Bin, ...]


def calibration(
    confidences: ArrayLike,
    right: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    bins: int = 10,
    draws: int = 10_000,
) -> Calibration:
    """The calibration of one form: the probability of the chosen answer of each document, and whether it is right.

    `clusters` holds the cluster of each document, such as the name of its passage; by default each is its own.
    `draws` is the number of simulated sets of bins, from which the lower bound is taken.

    >>> calibration([0.9] * 10 + [0.5] * 10, [1] * 9 + [0] + [1] * 5 + [0] * 5, bins=2).error.value
    0.0
    """
    p, hits = np.asarray(confidences, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if p.shape != hits.shape or not len(p):
        raise DataError(f"{len(p)} confidences and {len(hits)} answers", hint="give one of each for every document")
    filled = tuple(
        Bin(n=len(part), confidence=float(p[part].mean()), accuracy=float(hits[part].mean()))
        for part in _groups(p, bins)
    )
    sizes = np.array([part.n for part in filled], dtype=np.float64)
    weights = sizes / sizes.sum()
    gaps = np.array([part.accuracy - part.confidence for part in filled])
    observed = round(float((weights * np.abs(gaps)).sum()), 12)
    # One more right and one more wrong document per bin, so that a bin without mistakes is not taken for certain.
    rates = np.array([(part.n * part.accuracy + 1) / (part.n + 2) for part in filled])
    deviations = weights * np.sqrt(rates * (1 - rates) / sizes) * _design_effect(hits - p, clusters) ** 0.5
    noise = np.abs(np.random.default_rng(0).standard_normal((draws, len(filled)))) @ deviations
    quantile = (1 + LEVEL) / 2
    return Calibration(
        error=Estimate(
            value=_without_noise(weights * np.abs(gaps), deviations),
            n=len(p),
            low=max(0.0, observed - float(np.quantile(noise, quantile))),
            high=min(1.0, observed + float(ndtri(quantile)) * float(np.sqrt((deviations**2).sum()))),
        ),
        observed=observed,
        bins=filled,
    )


def _groups(confidences: Array, bins: int) -> list[Indexes]:
    """The documents of each bin: a confidence belongs to the quantile in which the middle of its documents lies."""
    _, codes, counts = np.unique(confidences.round(12), return_inverse=True, return_counts=True)
    middles = counts.cumsum() - counts / 2
    numbers = np.minimum(bins - 1, (bins * middles / len(confidences)).astype(np.intp))[codes]
    return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]


def _without_noise(gaps: Array, deviations: Array) -> float:
    """The sum of the gaps, scaled down by the factor at which they are expected to show, with noise, what they do.

    The expected size of a gap with normal noise is the mean of a folded normal distribution.
    """
    observed = float(gaps.sum())
    noise = np.where(deviations > 0, deviations, 1e-12)

    def expected_sum(share: float) -> float:
        scaled = share * gaps / noise
        folded = np.sqrt(2 / np.pi) * np.exp(-(scaled**2) / 2) + scaled * (1 - 2 * ndtr(-scaled))
        return float((noise * folded).sum())

    low, high = 0.0, 1.0
    if expected_sum(low) >= observed:
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_sum(middle) < observed else (low, middle)
    return round(high * observed, 12)


def _design_effect(gaps: Array, clusters: Sequence[Hashable] | None) -> float:
    """By how much clusters add to the variance of the mean gap: 1 or more, as few clusters may show less by chance."""
    if clusters is None or len(set(clusters)) < 2:
        return 1.0
    (clustered,), (independent,) = (form_means(document_scores(gaps, names)).stderrs for names in (clusters, None))
    return max(1.0, float(clustered / independent) ** 2) if independent else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePosition:
    """One position among the choices."""

    #: How often it is picked, and how often it is right.
    picked: Estimate
    gold: Estimate
    #: How much more often it is picked than it is right.
    excess: Estimate
    #: How often it is picked where it is right; not a number where it never is.
    recall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """The positions of the choices, and whether the model prefers some of them."""

    positions: tuple[ChoicePosition, ...]
    #: The position with the largest excess.
    preferred: int
    #: The standard deviation of the recalls.
    recall_std: float
    #: Stuart and Maxwell's test that positions are picked as often as they are right.
    p: float


def position_bias(picked: ArrayLike, gold: ArrayLike, clusters: Sequence[Hashable] | None = None) -> PositionBias:
    """The position bias of a form, from the picked and the right index for each document.

    `clusters` holds the cluster of each document, such as the name of its passage; by default each is its own.

    >>> bias = position_bias([0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 2, 1])
    >>> bias.preferred, [round(position.excess.value, 2) for position in bias.positions]
    (0, [0.67, -0.17, -0.33, -0.17])
    """
    picks, golds = np.asarray(picked, dtype=np.int64), np.asarray(gold, dtype=np.int64)
    if picks.shape != golds.shape or len(picks) < 2:
        message = f"{len(picks)} picks and {len(golds)} right positions"
        raise DataError(message, hint="give one of each for two or more documents")
    count = int(max(picks.max(), golds.max())) + 1
    positions = tuple(_position(picks, golds, index, clusters) for index in range(count))
    recalls = np.array([position.recall for position in positions])
    return PositionBias(
        positions=positions,
        preferred=int(np.argmax([position.excess.value for position in positions])),
        recall_std=float(np.nanstd(recalls)),
        p=stuart_maxwell(picks, golds, clusters),
    )


def _position(picks: Indexes, golds: Indexes, index: int, clusters: Sequence[Hashable] | None) -> ChoicePosition:
    right = golds == index
    means = form_means(document_scores(np.stack([picks == index, right], axis=1), clusters))
    picked, gold = means.estimates()
    return ChoicePosition(
        picked=picked,
        gold=gold,
        excess=difference_estimates(means, 0, 1)[0],
        recall=float((picks[right] == index).mean()) if right.any() else float("nan"),
    )


def stuart_maxwell(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | None = None) -> float:
    """The p value of the test that two classifications of the same documents have the same frequencies.

    The covariance is that of sums over clusters, which are the documents themselves by default.
    """
    pair = np.stack([np.asarray(first), np.asarray(second)])
    one_hot = (pair[:, :, None] == np.unique(pair)).astype(np.float64)
    differences = cluster_sums(one_hot[0] - one_hot[1], document_scores(pair[0], clusters).clusters)
    covariance, difference = differences.T @ differences, differences.sum(axis=0)
    rank = int(np.linalg.matrix_rank(covariance))
    if rank == 0:
        return 1.0
    statistic = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    return float(chdtrc(rank, statistic))
