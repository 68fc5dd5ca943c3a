"""Expected calibration error: how far the confidence in choices is from how often they are right.

Documents are binned by confidence, with about equally many in each bin; those of the same confidence share a bin, so
that the order of documents does not matter. Even a perfectly calibrated model has gaps by chance. The estimate is the
error whose gaps would, with this noise, add up to the observed ones; it is 0 where noise alone explains them. The
lower bound of the interval subtracts what noise alone may add up to, and the upper bound adds the normal error of the
weighted sum of gaps. Where documents are clustered, the noise is larger by the design effect of all gaps together (Rao
and Scott).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from multiform.errors import DataError
from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.means import form_means
from multiform.statistics.scores import Array, Indexes, document_scores


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
    level: float = LEVEL,
    seed: int = 0,
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
    groups = _groups(p, bins)
    means = [(float(p[part].mean()), float(hits[part].mean())) for part in groups]
    filled = tuple(
        Bin(n=len(part), confidence=confidence, accuracy=accuracy)
        for part, (confidence, accuracy) in zip(groups, means, strict=True)
    )
    sizes = np.array([part.n for part in filled], dtype=np.float64)
    weights = sizes / sizes.sum()
    gaps = np.array([part.accuracy - part.confidence for part in filled])
    observed = round(float((weights * np.abs(gaps)).sum()), 12)
    # One more right and one more wrong document per bin, so that a bin without mistakes is not taken for certain.
    rates = np.array([(part.n * part.accuracy + 1) / (part.n + 2) for part in filled])
    deviations = weights * np.sqrt(rates * (1 - rates) / sizes) * _design_effect(hits - p, clusters) ** 0.5
    noise = np.abs(np.random.default_rng(seed).standard_normal((draws, len(filled)))) @ deviations
    quantile = (1 + level) / 2
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

    def expected(share: float) -> float:
        scaled = share * gaps / noise
        folded = np.sqrt(2 / np.pi) * np.exp(-(scaled**2) / 2) + scaled * (1 - 2 * ndtr(-scaled))
        return float((noise * folded).sum())

    low, high = 0.0, 1.0
    if expected(low) >= observed:
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < observed else (low, middle)
    return round(high * observed, 12)


def _design_effect(gaps: Array, clusters: Sequence[Hashable] | None) -> float:
    """By how much clusters add to the variance of the mean gap: 1 or more, as few clusters may show less by chance."""
    if clusters is None or len(set(clusters)) < 2:
        return 1.0
    (clustered,), (independent,) = (form_means(document_scores(gaps, names)).stderrs for names in (clusters, None))
    return max(1.0, float(clustered / independent) ** 2) if independent else 1.0
