"""Estimates: a value with its standard error and 95 % interval.

Pure functions of the per-document values. A rate of successes has Wilson's interval, which stays
within 0 to 1; a mean of other values and a ratio of sums have Student's t interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An aggregate over `n` documents, with its standard error and interval; None where they are not known."""

    value: float
    n: int
    stderr: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Both bounds; not a number where they are not known."""
        return (math.nan if self.low is None else self.low, math.nan if self.high is None else self.high)

    def covers(self, value: float) -> bool:
        """Whether a value is in the interval; never where the interval is not known."""
        low, high = self.interval
        return low <= value <= high


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean of one value per document.

    >>> mean_estimate([1.0, 0.0, 1.0, 1.0]).value
    0.75
    >>> mean_estimate([1.0]).stderr is None
    True
    """
    n = len(values)
    value = math.fsum(values) / n
    if n < 2:
        return Estimate(value=value, n=n)
    variance = math.fsum((x - value) ** 2 for x in values) / (n - 1)
    stderr = math.sqrt(variance / n)
    if all(x in (0, 1) for x in values):
        low, high = wilson_interval(value, n)
    else:
        low, high = t_interval(value, stderr, n)
    return Estimate(value=value, n=n, stderr=stderr, low=low, high=high)


def ratio_estimate(pairs: Sequence[tuple[float, float]], scale: float = 1.0) -> Estimate:
    """`scale` times the sum of the first values over the sum of the second; uncertainty by linearisation.

    >>> ratio_estimate([(-2.0, 4.0), (-1.0, 2.0)], scale=-1.0).value
    0.5
    """
    n = len(pairs)
    total = math.fsum(weight for _, weight in pairs)
    if total == 0:
        return Estimate(value=math.nan, n=n)
    ratio = math.fsum(x for x, _ in pairs) / total
    if n < 2:
        return Estimate(value=scale * ratio, n=n)
    variance = math.fsum((x - ratio * weight) ** 2 for x, weight in pairs) * n / (n - 1)
    stderr = abs(scale) * math.sqrt(variance) / abs(total)
    low, high = t_interval(scale * ratio, stderr, n)
    return Estimate(value=scale * ratio, n=n, stderr=stderr, low=low, high=high)


def wilson_interval(rate: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's score interval for a rate of successes.

    >>> low, high = wilson_interval(0.0, 10)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.2775)
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def t_interval(value: float, stderr: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval around a mean of n values."""
    from scipy.special import stdtrit  # here, because it takes a moment to import

    half = float(stdtrit(n - 1, (1 + level) / 2)) * stderr
    return value - half, value + half


def normal_estimate(value: float, stderr: float | None, n: int) -> Estimate:
    """An aggregate with a normal interval, where its standard error is known."""
    if stderr is None:
        return Estimate(value=value, n=n)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * stderr
    return Estimate(value=value, n=n, stderr=stderr, low=value - half, high=value + half)


def recorded_estimate(value: float, stderr: float | None, n: int) -> Estimate:
    """An aggregate of which only the standard error is known: Wilson's interval where that is the one of a rate of
    successes, and a normal one elsewhere.

    >>> rate, other = recorded_estimate(0.0, 0.0, 10), recorded_estimate(0.5, 0.01, 10)
    >>> round(rate.high, 4), round(other.high, 4)
    (0.2775, 0.5196)
    """
    if stderr is None or n < 2 or not 0 <= value <= 1:
        return normal_estimate(value, stderr, n)
    if not math.isclose(stderr, math.sqrt(value * (1 - value) / (n - 1)), rel_tol=1e-6):
        return normal_estimate(value, stderr, n)
    low, high = wilson_interval(value, n)
    return Estimate(value=value, n=n, stderr=stderr, low=low, high=high)
