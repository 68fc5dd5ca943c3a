"""The best and worst of many forms, their spread and quartiles, without the winner's curse.

Also Kendall's tau, which says whether models keep their order from form to form.

The form with the highest score is partly the luckiest one, so that the interval of a single form is wrong
for it. The lower bound here holds for all forms at once, and therefore for whichever one is picked: its
critical value is a quantile of the largest deviation among all (correlated) means. The upper bound is
the highest of the forms' ordinary upper bounds, which the mean of the best form exceeds no more often
than that of a single one. Together they cover, with at least the stated probability, the mean of the
picked form and also the highest of all means. The lowest form and the spread, the largest difference of
any pair, are treated in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.means import CHUNK, Array, FormMeans
from multiform.statistics.paired import contrasts, variances

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
    ranges = by_chance.max(axis=1) - by_chance.min(axis=1)
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
    return means.exact_bounds(tail)


def _estimate(means: FormMeans, form: int, low: float, high: float) -> Estimate:
    return Estimate(value=float(means.values[form]), n=means.n, stderr=float(means.stderrs[form]), low=low, high=high)


def _deviations(means: FormMeans, draws: int) -> Array:
    """Simulated deviations of all means from their expectations: multivariate t."""
    generator = np.random.default_rng(0)
    variance, directions = np.linalg.eigh(means.covariance)
    root = directions * np.sqrt(np.maximum(variance, 0.0))
    normal: Array = generator.standard_normal((draws, len(variance))) @ root.T
    if not np.isfinite(means.freedom):
        return normal
    scale = np.sqrt(generator.chisquare(means.freedom, size=(draws, 1)) / means.freedom)
    deviations: Array = normal / scale
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
