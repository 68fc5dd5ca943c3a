"""Differences between forms: of two, where every document is its own control, and between the best and worst of many.

The difference of two rates has the interval of Bonett and Price: Student's, after adding two documents on which the
forms differ, one each way. It does not shrink to a point where the forms never differ. Two rates over independent
documents are tested with McNemar's exact test, anything else with a permutation test that flips the signs of clusters.

The form with the highest score is partly the luckiest one (the winner's curse), so that the interval of a single form
is wrong for it. The lower bound here holds for all forms at once, and therefore for whichever one is picked: its
critical value is a quantile of the largest deviation among all (correlated) means. The upper bound is the highest of
the forms' ordinary upper bounds. Together they cover the mean of the picked form and the highest of all means. The
lowest form and the spread, the largest difference of any pair, are treated in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtri, stdtr

from multiform.statistics.estimates import LEVEL, Estimate, exact_bounds
from multiform.statistics.means import CHUNK, Array, DocumentScores, FormMeans, Indexes, cluster_sums, form_means

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


def paired_differences(scores: DocumentScores) -> list[Difference]:
    """The differences of all pairs of forms.

    >>> from multiform.statistics.means import document_scores
    >>> right = [[1, 1]] * 60 + [[1, 0]] * 12 + [[0, 1]] * 2 + [[0, 0]] * 26
    >>> (pair,) = paired_differences(document_scores(right))
    >>> round(pair.estimate.value, 3), round(pair.p, 4)
    (0.1, 0.0129)
    """
    means = form_means(scores)
    first, second = np.triu_indices(len(means.values), 1)
    p = equality_tests(scores, first, second)
    single = difference_estimates(means, first, second)
    together = difference_estimates(means, first, second, level=1 - (1 - LEVEL) / max(1, len(first)))
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
    return means.estimates_of(means.values[a] - means.values[b], np.sqrt(variances(means, a, b)), low, high)


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


def equality_tests(scores: DocumentScores, first: Indexes, second: Indexes) -> Array:
    """The p values of two-sided tests that pairs of forms are equally good."""
    differences = scores.values[:, first] - scores.values[:, second]
    equal_weights = bool(np.allclose(scores.weights, scores.weights[0]))
    if scores.binary and equal_weights and not scores.clustered:
        return mcnemar((differences > 0).sum(axis=0), (differences < 0).sum(axis=0))
    return sign_flip_test(cluster_sums(scores.weights[:, None] * differences, scores.clusters))


def mcnemar(only_first: ArrayLike, only_second: ArrayLike) -> Array:
    """The two-sided exact test of McNemar, from the documents that only one of two forms gets right.

    >>> float(mcnemar(12, 2).round(4)), float(mcnemar(0, 0))
    (0.0129, 1.0)
    """
    fewer, total = np.minimum(only_first, only_second), np.add(only_first, only_second)
    p: Array = np.minimum(1.0, 2 * bdtr(fewer.astype(np.float64), total, 0.5))
    return p


def sign_flip_test(differences: Array, *, permutations: int = PERMUTATIONS) -> Array:
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
    generator = np.random.default_rng(0)
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


#: Rights times the share of wrongs below which normal approximations of a rate mislead.
_RARE = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the means of several forms lie. The intervals allow for picking the highest and the lowest."""

    highest: int
    lowest: int
    #: The mean of the highest and of the lowest form.
    high: Estimate
    low: Estimate
    #: The highest minus the lowest mean.
    spread: Estimate
    median: float
    lower_quartile: float
    upper_quartile: float
    #: The spread to expect if all forms were equally good.
    by_chance: float
    #: How often the spread would be as large if all forms were equally good.
    p: float

    @property
    def interquartile_range(self) -> float:
        return self.upper_quartile - self.lower_quartile


def spread_of(means: FormMeans, *, draws: int = 20_000) -> Spread:
    """The spread of the means of two or more forms.

    `draws` is the number of simulated sets of means, from which critical values are taken.
    """
    values = means.values
    highest, lowest = int(values.argmax()), int(values.argmin())
    deviations = _deviations(means, draws)
    quantile = (1 + LEVEL) / 2
    errors = means.stderrs
    scaled = deviations / np.where(errors > 0, errors, np.inf)
    # The largest deviation upwards bounds the highest form from below; downwards it has the same distribution.
    of_any = max(float(np.quantile(scaled.max(axis=1), quantile)), means.critical())
    below, above = _picked_bounds(means, means.critical(), 1)
    below_all, above_all = _picked_bounds(means, of_any, len(values))
    # What equal forms would show: deviations with the covariance of the means about their common mean, as in a score
    # test, so that forms that differ in the same way on every document do not seem to be certain.
    off, share = values - values.mean(), 1 / means.equivalent
    covariance = (1 - share) * means.covariance + share * np.outer(off, off)
    by_chance = _deviations(replace(means, covariance=covariance), draws)
    ranges = np.minimum(by_chance.max(axis=1) - by_chance.min(axis=1), means.largest_difference)
    distance = float(values[highest] - values[lowest])
    low, high = _spread_bounds(means, deviations, quantile)
    first_quartile, median, third_quartile = np.quantile(values, (0.25, 0.5, 0.75))
    return Spread(
        highest=highest,
        lowest=lowest,
        high=_estimate(means, highest, float(below_all[highest]), float(above.max())),
        low=_estimate(means, lowest, float(below.min()), float(above_all[lowest])),
        spread=Estimate(value=distance, n=means.n, low=min(low, distance), high=high),
        median=float(median),
        lower_quartile=float(first_quartile),
        upper_quartile=float(third_quartile),
        by_chance=float(ranges.mean()),
        p=float((1 + (ranges >= distance - 1e-12).sum()) / (1 + draws)),
    )


def _picked_bounds(means: FormMeans, critical: float, forms: int) -> tuple[Array, Array]:
    """Bounds of all means `critical` standard errors away, which hold for `forms` of them at once.

    Rates have exact bounds. Where rights or wrongs are few, the simulated deviations say too little of how far luck
    goes, and the error is divided by the number of forms (Bonferroni).
    """
    if not means.rates:
        return means.bounds(critical)
    tail = float(stdtr(means.freedom, -critical))
    if (means.effective_n * means.values * (1 - means.values) < _RARE).any():
        tail = min(tail, float(stdtr(means.freedom, -means.critical())) / forms)
    rates = zip(means.values.tolist(), means.effective_n.tolist(), strict=True)
    low, high = np.array([exact_bounds(rate, n, tail) for rate, n in rates]).T
    return low, high


def _estimate(means: FormMeans, form: int, low: float, high: float) -> Estimate:
    return Estimate(value=float(means.values[form]), n=means.n, stderr=float(means.stderrs[form]), low=low, high=high)


def _deviations(means: FormMeans, draws: int) -> Array:
    """Simulated deviations of all means from their expectations: multivariate t."""
    generator = np.random.default_rng(0)
    variance, directions = np.linalg.eigh(means.covariance)
    root = directions * np.sqrt(np.maximum(variance, 0.0))
    deviations: Array = generator.standard_normal((draws, len(variance))) @ root.T
    if np.isfinite(means.freedom):
        deviations /= np.sqrt(generator.chisquare(means.freedom, size=(draws, 1)) / means.freedom)
    return deviations


def _spread_bounds(means: FormMeans, deviations: Array, quantile: float) -> tuple[float, float]:
    """The bounds of the largest difference between any two means."""
    first, second = np.triu_indices(len(means.values), 1)
    raw = np.sqrt(variances(means, first, second))
    scale = np.where(raw > 0, raw, np.inf)
    step = max(1, CHUNK // len(first))
    blocks = (deviations[start : start + step] for start in range(0, len(deviations), step))
    largest = np.concatenate([(np.abs(block[:, first] - block[:, second]) / scale).max(axis=1) for block in blocks])
    of_any = max(float(np.quantile(largest, quantile)), means.critical())
    centres, errors = contrasts(means, first, second)
    low = float(np.max(np.abs(centres) - of_any * errors))
    high = float(np.max(np.abs(centres) + means.critical() * errors))
    return max(0.0, low), min(means.largest_difference, high)


def kendall_tau(first: ArrayLike, second: ArrayLike) -> float:
    """Kendall's tau-b of two lists of scores; not a number where all scores of a list are equal.

    >>> kendall_tau([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    upper = np.triu_indices(len(np.asarray(first)), 1)
    signs = [np.sign(np.subtract.outer(side, side))[upper] for side in (np.asarray(first), np.asarray(second))]
    scale = np.sqrt((signs[0] ** 2).sum() * (signs[1] ** 2).sum())
    return float((signs[0] * signs[1]).sum() / scale) if scale else float("nan")
