"""The smallest difference that a run can detect, and how many documents a difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

#: Two-sided error and probability of detection.
ALPHA = 0.05
POWER = 0.8
#: How often two forms differ on a document, where that is not known yet.
FLIP_RATE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest true difference between two forms that is found with the given power."""

    difference: float
    n: int
    flip_rate: float
    power: float
    alpha: float


def detectable_difference(
    n: int, *, flip_rate: float = FLIP_RATE, alpha: float = ALPHA, power: float = POWER, comparisons: int = 1
) -> Detectable:
    """The smallest difference in accuracy between two forms on the same n documents (McNemar's test).

    `flip_rate` is how often one form is right where the other is wrong. With several `comparisons`, each has to pass
    a level of alpha divided by their number, as the largest of them has to under Holm's correction.

    >>> round(detectable_difference(1000).difference, 4)
    0.0395
    """
    quantiles = _quantiles(alpha / comparisons, power)
    difference = quantiles * math.sqrt(flip_rate / (n + quantiles**2))
    if difference > flip_rate:  # so few documents that all flips have to go one way, and more of them have to flip
        difference = quantiles**2 / (n + quantiles**2)
    return Detectable(difference=difference, n=n, flip_rate=flip_rate, power=power, alpha=alpha)


def needed_documents(
    difference: float, *, flip_rate: float = FLIP_RATE, alpha: float = ALPHA, power: float = POWER, comparisons: int = 1
) -> int:
    """How many documents it takes to detect a difference between two forms.

    >>> needed_documents(0.0395)
    999
    """
    quantiles = _quantiles(alpha / comparisons, power)
    return math.ceil(round(quantiles**2 * (max(flip_rate, difference) / difference**2 - 1), 6))


def _quantiles(alpha: float, power: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
