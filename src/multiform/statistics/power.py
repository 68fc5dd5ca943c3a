"""The smallest difference that a run can detect, and how many documents a difference needs.

The power is that of McNemar's exact test: the number of documents on which two forms differ is binomial, and so is the
number of those that one of them wins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.special import bdtr, bdtrik, gammaln, xlog1py, xlogy

from multiform.statistics.estimates import ALPHA

#: The probability of detection.
POWER = 0.8
#: How often two forms differ on a document, where that is not known yet.
FLIP_RATE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest true difference between two forms that is found with the given power."""

    #: None where so few documents cannot tell apart any two forms.
    difference: float | None
    n: int
    #: How often the forms differ on a document: as assumed, or as often as the difference needs.
    flip_rate: float
    power: float
    alpha: float


def mcnemar_power(n: int, difference: float, *, flip_rate: float = FLIP_RATE, alpha: float = ALPHA) -> float:
    """How probably McNemar's exact test finds a true difference between two forms on the same n documents.

    `flip_rate` is how often one form is right where the other is wrong; it cannot be less than the difference.

    >>> round(mcnemar_power(1000, 0.04), 2), round(mcnemar_power(20, 0.2), 2)
    (0.79, 0.2)
    """
    flips = min(1.0, max(flip_rate, difference))
    if flips == 0:
        return 0.0
    counts = np.arange(n + 1)
    log = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    weights = np.exp(log + xlogy(counts, flips) + xlog1py(n - counts, -flips))
    counts, weights = counts[weights > 1e-15], weights[weights > 1e-15]
    # The most documents that the worse form may win for the test to reject.
    most = np.floor(np.nan_to_num(bdtrik(alpha / 2, counts, 0.5), nan=-1.0) + 1e-9)
    least = np.maximum(most, 0.0)
    rejects = (most >= 0) & (bdtr(least, counts, 0.5) <= alpha / 2 * (1 + 1e-9))
    wins = min(1.0, (flips + difference) / (2 * flips))
    either = bdtr(least, counts, wins) + bdtr(least, counts, 1 - wins)
    return float(weights @ np.where(rejects, either, 0.0))


def detectable_difference(
    n: int, *, flip_rate: float = FLIP_RATE, alpha: float = ALPHA, power: float = POWER, comparisons: int = 1
) -> Detectable:
    """The smallest difference in accuracy between two forms on the same n documents.

    With several `comparisons`, each has to pass a level of alpha divided by their number, as the largest of them has to
    under Holm's correction. Of documents in clusters, n is the number of clusters or of effective documents.

    >>> round(detectable_difference(1000).difference, 3)
    0.04
    """
    level = alpha / comparisons

    def detects(difference: float) -> bool:
        return mcnemar_power(n, difference, flip_rate=flip_rate, alpha=level) >= power

    if not detects(1.0):
        return Detectable(difference=None, n=n, flip_rate=1.0, power=power, alpha=alpha)
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return Detectable(difference=high, n=n, flip_rate=max(flip_rate, high), power=power, alpha=alpha)


def needed_documents(
    difference: float, *, flip_rate: float = FLIP_RATE, alpha: float = ALPHA, power: float = POWER, comparisons: int = 1
) -> int:
    """How many documents it takes to detect a difference between two forms.

    >>> needed_documents(0.04)
    1021
    """
    level = alpha / comparisons

    def detects(n: int) -> bool:
        return mcnemar_power(n, difference, flip_rate=flip_rate, alpha=level) >= power

    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)
    n = max(1, math.ceil(quantiles**2 * (max(flip_rate, difference) / difference**2 - 1)))  # without discreteness
    while not detects(n):
        n += max(1, n // 200)
    while n > 1 and detects(n - 1):
        n -= 1
    return n
