"""Estimates: a value with its standard error and 95 % interval.

A rate of successes has Wilson's interval, corrected near 0 and 1. Other means and ratios of sums have Student's
interval, corrected for skewed values. Prediction-powered means combine few labels by people with a judge's scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, variance

from multiform.errors import DataError

#: The level of intervals, and of tests.
LEVEL = 0.95
ALPHA = 0.05
#: The level of an interval whose width stopped a run, which makes up for what stopping costs: it covers 95 %.
STOPPED_LEVEL = 0.96
#: The fewest resamples whose percentiles are an interval.
MIN_RESAMPLES = 1000
#: The fewest labels that say something about a judge.
MIN_LABELS = 10
#: So few successes or failures that a normal approximation of their number misleads.
FEW = 3.5


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

    def numbers(self, *more: str) -> dict[str, float | None]:
        """The value and its bounds as JSON, with `more` of the fields."""
        return {name: getattr(self, name) for name in ("value", "low", "high", *more)}

    def to_dict(self) -> dict[str, float | None]:
        """The value and its bounds as JSON, with the standard error where it is known."""
        stderr = {} if self.stderr is None else {"stderr": self.stderr}
        return {"value": self.value, **stderr, "low": self.low, "high": self.high}

    def interval_text(self, digits: int = 3) -> str:
        """Both bounds in words, such as "0.412 to 0.583"; empty where they are not known."""
        return "" if self.low is None or self.high is None else f"{self.low:.{digits}f} to {self.high:.{digits}f}"

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
        low, high = skewed_interval(value, stderr, n, skewness(values))
        shares = Shares.of(values)
        if shares is not None:
            low, high = shares.extend(value, low, high, n, NormalDist().inv_cdf((1 + LEVEL) / 2))
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
    residuals = [scale * (x - ratio * weight) for x, weight in pairs]
    variance = math.fsum(residual**2 for residual in residuals) * n / (n - 1)
    stderr = math.sqrt(variance) / abs(total)
    low, high = skewed_interval(scale * ratio, stderr, n, skewness(residuals))
    return Estimate(value=scale * ratio, n=n, stderr=stderr, low=low, high=high)


def share_estimate(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The ratio of parts to wholes over all documents, such as followed instructions to all of them.

    The interval is that of a rate whose documents are clusters, and stays between 0 and 1. If some first value is not a
    part of the second, it is a plain ratio.

    >>> share_estimate([(3, 3), (2, 2), (1, 1)]).high
    1.0
    """
    estimate = ratio_estimate(pairs)
    low, high = estimate.low, estimate.high
    if low is None or high is None or not all(0 <= x <= weight for x, weight in pairs):
        return estimate
    low, high = max(0.0, low), min(1.0, high)
    rates, sizes = [x / weight for x, weight in pairs if weight], [weight for _, weight in pairs if weight]
    if any(rate in (0, 1) for rate in rates):
        shares = Shares.of_clusters(rates, sizes, len(rates))
        low, high = shares.extend(estimate.value, low, high, len(rates), NormalDist().inv_cdf((1 + LEVEL) / 2))
    return replace(estimate, low=low, high=high)


def wilson_interval(rate: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a rate of successes among n independent documents.

    >>> low, high = wilson_interval(0.0, 10)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.2775)
    """
    return rate_bounds(rate, n, NormalDist().inv_cdf((1 + level) / 2))


def rate_bounds(rate: float, n: float, critical: float) -> tuple[float, float]:
    """Wilson's bounds of a rate, `critical` standard errors away; n may be an effective number of documents.

    With one to three successes, Wilson's lower bound is above the true rate far too often; that of a Poisson
    distribution takes its place, and likewise at the other end (Brown, Cai and DasGupta 2001).
    """
    square = critical * critical
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = critical * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n)) / (1 + square / n)
    # Exactly 0 and 1 where the rate is, which rounding would miss.
    low = max(0.0, centre - half) if rate > 0 else 0.0
    high = min(1.0, centre + half) if rate < 1 else 1.0
    if 0 < n * rate <= FEW:
        low = min(low, _fewest(n * rate, critical) / n)
    if 0 < n * (1 - rate) <= FEW:
        high = max(high, 1 - _fewest(n * (1 - rate), critical) / n)
    return low, high


def _fewest(count: float, critical: float) -> float:
    """The lower bound of a Poisson mean after `count` events, at the level of a two-sided normal quantile."""
    from scipy.special import gammaincinv  # here, because it takes a moment to import

    return float(gammaincinv(count, 2 * (1 - NormalDist().cdf(critical))))


def exact_bounds(rate: float, n: float, tail: float) -> tuple[float, float]:
    """Clopper and Pearson's bounds of a rate, each missed with probability `tail` at most.

    >>> low, high = exact_bounds(0.0, 10, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv

    right, wrong = n * rate, n * (1 - rate)
    low = 0.0 if right <= 0 else float(betaincinv(right, wrong + 1, tail))
    high = 1.0 if wrong <= 0 else float(betaincinv(right + 1, wrong, 1 - tail))
    return low, high


def skewness(values: Sequence[float]) -> float:
    """The sample skewness, corrected for its bias; 0 for fewer than three values and for equal ones."""
    n = len(values)
    mean = math.fsum(values) / n
    second = math.fsum((x - mean) ** 2 for x in values) / n
    if n < 3 or second <= 1e-24 * max(1.0, mean * mean):
        return 0.0
    third = math.fsum((x - mean) ** 3 for x in values) / n
    return third / math.pow(second, 1.5) * math.sqrt(n * (n - 1)) / (n - 2)


def skewed_interval(value: float, stderr: float, n: int, skew: float, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval around a mean of n values with this skewness."""
    from scipy.special import stdtrit

    return skewed_bounds(value, stderr, float(stdtrit(n - 1, (1 + level) / 2)), skew / math.sqrt(n))


def skewed_bounds(value: float, stderr: float, critical: float, skew: float) -> tuple[float, float]:
    """Bounds about `critical` standard errors away, with Hall's transformation for a mean with this skewness."""
    if abs(skew) < 1e-9:
        return value - critical * stderr, value + critical * stderr
    low, high = (3 / skew * (math.cbrt(1 + skew * (q - skew / 6)) - 1) for q in (critical, -critical))
    return value - stderr * low, value - stderr * high


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Values between 0 and 1, some of them 0 or 1, such as F1 or pass@k: how many are above 0 and below 1.

    If nearly all are 0 or nearly all are 1, the few others say little of how many there are. The same is true of the
    rates of clusters.
    """

    above: float
    mean_above: float
    below: float
    mean_below: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Shares | None:
        """The shares of some values; None where they are not between 0 and 1, or none of them is 0 or 1."""
        if not all(0 <= x <= 1 for x in values) or not any(x in (0, 1) for x in values):
            return None
        above, below = [x for x in values if x > 0], [1 - x for x in values if x < 1]
        return cls(
            above=len(above) / len(values),
            mean_above=math.fsum(above) / len(above) if above else 1.0,
            below=len(below) / len(values),
            mean_below=math.fsum(below) / len(below) if below else 1.0,
        )

    @classmethod
    def of_clusters(cls, rates: Sequence[float], sizes: Sequence[float], number: float) -> Shares:
        """The shares of `number` clusters of documents that are right or wrong.

        The few clusters that have a wrong document say little of how wrong a cluster can be: one more counts that is
        wrong as a whole, and likewise one that is right.
        """
        total = math.fsum(sizes)
        pairs = list(zip(rates, sizes, strict=True))
        above = math.fsum(size for rate, size in pairs if rate > 0) / total
        below = math.fsum(size for rate, size in pairs if rate < 1) / total
        mean = math.fsum(rate * size for rate, size in pairs) / total
        return cls(
            above=above,
            mean_above=(mean * number + 1) / (above * number + 1),
            below=below,
            mean_below=((1 - mean) * number + 1) / (below * number + 1),
        )

    def extend(self, mean: float, low: float, high: float, n: float, critical: float) -> tuple[float, float]:
        """The bounds of the mean, which reach as far as the exact bounds of the shares, and stay within 0 and 1."""
        tail = 1 - NormalDist().cdf(critical)
        low = min(low, mean, 1 - exact_bounds(self.below, n, tail)[1] * self.mean_below)
        high = max(high, mean, exact_bounds(self.above, n, tail)[1] * self.mean_above)
        return max(0.0, low), min(1.0, high)


def normal_estimate(value: float, stderr: float | None, n: int) -> Estimate:
    """An aggregate with a normal interval, where its standard error is known."""
    if stderr is None:
        return Estimate(value=value, n=n)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * stderr
    return Estimate(value=value, n=n, stderr=stderr, low=value - half, high=value + half)


def resampled_estimate(value: float, n: int, resampled: Sequence[float]) -> Estimate:
    """An aggregate with the values that it has on resamples of its documents: their deviation and percentiles.

    Percentiles stay within the range of the metric. With few resamples, as of slow metrics, the interval is normal.
    """
    import numpy as np

    stderr = float(np.std(resampled, ddof=1))
    if len(resampled) < MIN_RESAMPLES:
        return normal_estimate(value, stderr, n)
    low, high = np.quantile(resampled, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Estimate(value=value, n=n, stderr=stderr, low=min(low, value), high=max(high, value))


def recorded_estimate(value: float, stderr: float | None, n: int) -> Estimate:
    """An aggregate of which only the standard error is known.

    A value between 0 and 1 has the interval of a rate with the effective number of documents, which stays within them;
    any other a normal one.

    >>> rate, group = recorded_estimate(0.0, 0.0, 10), recorded_estimate(0.99, 0.01, 100)
    >>> round(rate.high, 4), round(group.low, 4), round(group.high, 4)
    (0.2775, 0.9455, 0.9995)
    """
    if stderr is None or math.isnan(stderr) or n < 2 or not 0 <= value <= 1:
        return normal_estimate(value, stderr, n)
    if stderr == 0 and 0 < value < 1:
        return Estimate(value=value, n=n, stderr=stderr, low=value, high=value)
    effective = value * (1 - value) / stderr**2 if stderr and 0 < value < 1 else n
    # lm-eval divides the variance of a rate by n - 1.
    is_rate = math.isclose(effective + 1, n, rel_tol=1e-6)
    low, high = wilson_interval(value, n if is_rate else max(1.0, effective))
    return Estimate(value=value, n=n, stderr=stderr, low=low, high=high)


#: The label and the score of two further documents, of which the interval is made.
_UNSEEN = ((1.0, 0.0), (0.0, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredMean:
    """The mean label of all documents, estimated from the labels of some and the judge's scores of all.

    `bias` is how much higher the judge scores labelled documents than people do, `agreement` how often both give the
    same, and `weight` how much the judge's scores count: 0 to 1.
    """

    mean: Estimate
    labels: Estimate
    bias: Estimate
    agreement: Estimate
    weight: float


def powered_mean(labels: Sequence[float], scores: Sequence[float], others: Sequence[float]) -> PoweredMean:
    """The mean label, from the labels and scores of a random sample of documents and the scores of the `others`.

    All of them are from 0 to 1, and so are the bounds. The estimate is ``weight · mean(others) + mean(label − weight ·
    score)``, which is unbiased whatever the judge does (Angelopoulos et al. 2023). The weight is the one with the
    smallest variance (PPI++, arXiv:2311.01453): a judge that knows nothing gets 0, and the labels alone are left.

    A judge that is nearly always right makes no mistake among few labels. Two more documents make up for it: one that
    people approve and the judge does not, and one the other way round.

    >>> estimated = powered_mean([1, 1, 1, 0] * 10, [1, 1, 1, 1] * 10, [1] * 400)
    >>> estimated.mean.value, estimated.bias.value, estimated.agreement.value
    (0.75, 0.25, 0.75)
    """
    from scipy.special import stdtrit  # here, because it takes a moment to import

    pairs = list(zip(labels, scores, strict=True))
    if len(pairs) < MIN_LABELS:
        hint = f"label at least {MIN_LABELS} documents, drawn at random"
        raise DataError(f"{len(pairs)} labels say too little about a judge", hint=hint)
    shown = [*pairs, *_UNSEEN]
    weight = _weight(shown, others)
    critical = float(stdtrit(len(shown) - 1, (1 + LEVEL) / 2))

    def estimate(residuals: Sequence[float], least: float, rest: float, rest_variance: float, n: int) -> Estimate:
        """The mean of the labelled documents, and of two further ones for the interval, plus `rest`."""
        value, centre = rest + fmean(residuals[: -len(_UNSEEN)]), rest + fmean(residuals)
        stderr = math.sqrt(variance(residuals) / len(residuals) + rest_variance)
        low, high = max(least, centre - critical * stderr), min(1.0, centre + critical * stderr)
        return Estimate(value=min(1.0, max(least, value)), n=n, stderr=stderr, low=low, high=high)

    rest = weight * fmean(others) if others else 0.0
    rest_variance = weight**2 * variance(others) / len(others) if len(others) > 1 else 0.0
    residuals = [label - weight * score for label, score in shown]
    return PoweredMean(
        mean=estimate(residuals, 0.0, rest, rest_variance, len(pairs) + len(others)),
        labels=mean_estimate([float(label) for label, _ in pairs]),
        bias=estimate([score - label for label, score in shown], -1.0, 0.0, 0.0, len(pairs)),
        agreement=mean_estimate([float(math.isclose(label, score, abs_tol=1e-9)) for label, score in pairs]),
        weight=weight,
    )


def _weight(pairs: Sequence[tuple[float, float]], others: Sequence[float]) -> float:
    """The weight of the judge's scores with which the estimate has the smallest variance."""
    if len(others) < 2:
        return 0.0
    label_mean, score_mean = (fmean(side) for side in zip(*pairs, strict=True))
    covariance = sum((label - label_mean) * (score - score_mean) for label, score in pairs) / (len(pairs) - 1)
    spread = variance([*(score for _, score in pairs), *others])
    best = covariance / (spread * (1 + len(pairs) / len(others))) if spread else 0.0
    return min(1.0, max(0.0, best))
