"""Paired differences between forms: every document is its own control.

The difference of two rates has the interval of Bonett and Price, which is that of Student after adding two
documents on which the forms differ, one each way; it does not shrink to a point where the forms never
differ. Where documents are clustered or weighted, their number is the effective one. Two rates over
independent documents are tested with McNemar's exact test, anything else with a permutation test that
flips the signs of whole clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtri

from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.means import CHUNK, Array, DocumentScores, FormMeans, Indexes, form_means

#: Permutations that a test draws; where there are fewer different ones, all of them are used.
PERMUTATIONS = 9_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean of form `first` minus that of form `second`, with a test of whether they are equal."""

    first: int
    second: int
    #: The difference with the interval of this pair alone, and the p value of its test alone.
    estimate: Estimate
    p: float
    #: The p value after Holm's correction for all pairs of the forms.
    p_holm: float
    #: The interval that holds for all pairs at once, and the p value that belongs to it (Bonferroni).
    simultaneous: Estimate
    p_simultaneous: float


def paired_differences(scores: DocumentScores, *, level: float = LEVEL, seed: int = 0) -> list[Difference]:
    """The differences of all pairs of forms.

    >>> from multiform.statistics.means import document_scores
    >>> right = [[1, 1]] * 60 + [[1, 0]] * 12 + [[0, 1]] * 2 + [[0, 0]] * 26
    >>> (pair,) = paired_differences(document_scores(right))
    >>> round(pair.estimate.value, 3), round(pair.p, 4)
    (0.1, 0.0129)
    """
    means = form_means(scores)
    first, second = np.triu_indices(len(means.values), 1)
    p = equality_tests(scores, first, second, seed=seed)
    single = difference_estimates(means, first, second, level=level)
    together = difference_estimates(means, first, second, level=1 - (1 - level) / max(1, len(first)))
    return [
        Difference(
            first=int(a),
            second=int(b),
            estimate=estimate,
            p=float(raw),
            p_holm=float(adjusted),
            simultaneous=wide,
            p_simultaneous=min(1.0, float(raw) * len(first)),
        )
        for a, b, estimate, wide, raw, adjusted in zip(first, second, single, together, p, holm(p), strict=True)
    ]


def paired_difference(scores: DocumentScores) -> Difference:
    """The difference of the two columns, such as one form under two models."""
    (difference,) = paired_differences(scores)
    return difference


def difference_estimates(
    means: FormMeans, first: ArrayLike, second: ArrayLike, *, level: float = LEVEL
) -> list[Estimate]:
    """The differences between pairs of means with their intervals: each of `first` minus that of `second`."""
    a, b = np.atleast_1d(np.asarray(first)), np.atleast_1d(np.asarray(second))
    centres, errors = contrasts(means, a, b)
    half, most = means.critical(level) * errors, means.largest_difference
    low, high = np.maximum(-most, centres - half), np.minimum(most, centres + half)
    columns = zip(means.values[a] - means.values[b], np.sqrt(variances(means, a, b)), low, high, strict=True)
    return [
        Estimate(value=float(value), n=means.n, stderr=float(error), low=float(low), high=float(high))
        for value, error, low, high in columns
    ]


def simultaneous_bounds(estimate: Estimate, number: int, *, level: float = LEVEL) -> tuple[float, float]:
    """The bounds of a 95 % interval, moved outwards so that `number` such intervals hold at once (Bonferroni).

    >>> estimate = Estimate(value=0.1, n=100, low=0.0, high=0.2)
    >>> [round(bound, 3) for bound in simultaneous_bounds(estimate, 10)]
    [-0.043, 0.243]
    """
    low, high = estimate.interval
    wider = float(ndtri(1 - (1 - level) / (2 * number)) / ndtri((1 + LEVEL) / 2))
    centre, half = (low + high) / 2, (high - low) / 2 * wider
    return centre - half, centre + half


def variances(means: FormMeans, first: Indexes, second: Indexes) -> Array:
    """The variances of the differences between pairs of means."""
    diagonal = np.diag(means.covariance)
    return np.maximum(0.0, diagonal[first] + diagonal[second] - 2 * means.covariance[first, second])


def contrasts(means: FormMeans, first: Indexes, second: Indexes) -> tuple[Array, Array]:
    """The centres and standard errors of the intervals of differences between pairs of means."""
    values, squares = means.values[first] - means.values[second], variances(means, first, second)
    if not means.rates:
        return values, np.sqrt(squares)
    rates = np.diag(means.both_right)
    discordance = np.maximum(0.0, rates[first] + rates[second] - 2 * means.both_right[first, second])
    n = means.effective(squares, discordance - values**2, means.unseen[first, second])
    more = n + 2
    centres = n * values / more
    return centres, np.sqrt(((n * discordance + 2) / more - centres**2) / more)


def equality_tests(scores: DocumentScores, first: Indexes, second: Indexes, *, seed: int = 0) -> Array:
    """The p values of two-sided tests that pairs of forms are equally good."""
    differences = scores.values[:, first] - scores.values[:, second]
    equal_weights = bool(np.allclose(scores.weights, scores.weights[0]))
    if scores.binary and equal_weights and not scores.clustered:
        return mcnemar((differences > 0).sum(axis=0), (differences < 0).sum(axis=0))
    _, clusters = np.unique(scores.clusters, return_inverse=True)
    sums = np.zeros((int(clusters.max()) + 1, len(first)))
    np.add.at(sums, clusters, scores.weights[:, None] * differences)
    return sign_flip_test(sums, seed=seed)


def mcnemar(only_first: ArrayLike, only_second: ArrayLike) -> Array:
    """The two-sided exact test of McNemar, from the documents that only one of two forms gets right.

    >>> float(mcnemar(12, 2).round(4)), float(mcnemar(0, 0))
    (0.0129, 1.0)
    """
    fewer, total = np.minimum(only_first, only_second), np.add(only_first, only_second)
    p: Array = np.minimum(1.0, 2 * bdtr(fewer.astype(np.float64), total, 0.5))
    return p


def sign_flip_test(differences: Array, *, permutations: int = PERMUTATIONS, seed: int = 0) -> Array:
    """The two-sided permutation test that flips the sign of each row; a column for each test.

    >>> sign_flip_test(np.array([[0.5], [0.25], [1.0], [0.125]])).tolist()
    [0.125]
    """
    rows = differences[differences.any(axis=1)]
    n = len(rows)
    observed = np.abs(rows.sum(axis=0))
    reached = observed - 1e-12 * np.abs(rows).sum(axis=0)
    if n < 31 and 2**n <= permutations:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        share: Array = (np.abs(signs @ rows) >= reached).mean(axis=0)
        return share
    generator = np.random.default_rng(seed)
    count = np.zeros(rows.shape[1])
    step = max(1, CHUNK // max(n, rows.shape[1]))
    for start in range(0, permutations, step):
        signs = generator.integers(0, 2, size=(min(step, permutations - start), n)) * 2.0 - 1.0
        count += (np.abs(signs @ rows) >= reached).sum(axis=0)
    p: Array = (1 + count) / (1 + permutations)
    return p


def holm(p: ArrayLike) -> Array:
    """The p values of several tests after Holm's correction, which bounds the probability of any false finding.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)
    adjusted = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(1.0, adjusted)
    return corrected
