"""Confidence sequences: intervals of a mean that hold at every number of documents at once.

A run may look at such an interval as often as it likes and stop when it is narrow enough, without harm to its
coverage. For each candidate mean, gamblers bet that scores are higher, and others that they are lower; a
candidate at which they get rich together is excluded (Waudby-Smith and Ramdas, "Estimating means of
bounded random variables by betting", JRSS B 2024; the bets are a mixture over sizes). Scores have to be
between 0 and 1, and documents have to come in random order, which `document_order` gives.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.scores import Array

#: Candidate means; the bounds are rounded outwards to them.
_CANDIDATES = np.linspace(0.0, 1.0, 1001)
#: Shares of the capital that gamblers bet: small ones are for long runs.
_BETS = np.geomspace(0.01, 0.9, 10)
#: What each gambler bets per unit above, and per unit below a candidate mean.
_UP = _BETS / np.maximum(_CANDIDATES, 1e-9)[:, None]
_DOWN = _BETS / np.maximum(1 - _CANDIDATES, 1e-9)[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfidenceSequence:
    """The state after some documents; `updated` gives the one after more of them."""

    level: float
    n: int
    total: float
    #: The logarithm of the gamblers' capital, with axes for candidate means and gamblers.
    capital: Array
    low: float
    high: float

    @property
    def estimate(self) -> Estimate:
        """The mean so far, with the interval."""
        return Estimate(value=self.total / self.n if self.n else 0.5, n=self.n, low=self.low, high=self.high)

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def updated(self, values: ArrayLike) -> ConfidenceSequence:
        """The state after more documents."""
        scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if ((scores < 0) | (scores > 1)).any():
            message = "a score is not between 0 and 1"
            raise DataError(message, hint="a confidence sequence needs a bounded metric, such as acc")
        capital = self.capital.copy()
        for score, count in zip(*np.unique(scores, return_counts=True), strict=True):
            gain = (score - _CANDIDATES)[:, None]
            capital += count * np.log1p(np.concatenate([_UP * gain, -_DOWN * gain], axis=1))
        together = np.logaddexp.reduce(capital, axis=1) - np.log(capital.shape[1])
        plausible = np.flatnonzero(together < -np.log(1 - self.level))
        low, high = self.low, self.high
        if len(plausible):
            low = max(low, float(_CANDIDATES[max(0, plausible[0] - 1)]))
            high = min(high, float(_CANDIDATES[min(len(_CANDIDATES) - 1, plausible[-1] + 1)]))
        return replace(
            self,
            n=self.n + len(scores),
            total=self.total + float(scores.sum()),
            capital=capital,
            low=low,
            high=max(low, high),
        )


def confidence_sequence(values: ArrayLike = (), *, level: float = LEVEL) -> ConfidenceSequence:
    """The confidence sequence of a mean after some scores between 0 and 1.

    >>> sequence = confidence_sequence([1, 0, 1, 1] * 100)
    >>> 0.65 < sequence.low < 0.75 < sequence.high < 0.85
    True
    """
    capital = np.zeros((len(_CANDIDATES), 2 * len(_BETS)))
    start = ConfidenceSequence(level=level, n=0, total=0.0, capital=capital, low=0.0, high=1.0)
    return start.updated(values) if np.size(values) else start


def document_order(
    subjects: Mapping[str, Sequence[int]], *, equal_subjects: bool = False, seed: int | None = 0
) -> list[tuple[str, int]]:
    """The documents of one or several subjects in random order, each with its subject.

    Wherever a run stops, the documents so far are a fair sample: each is a random one of all documents, or with
    `equal_subjects` one of a random subject. The order then ends where a subject has no more documents, as
    those that are left would count too much.

    >>> order = document_order({"small": range(10), "large": range(1000)}, equal_subjects=True)
    >>> len(order) < 40, {subject for subject, _ in order} == {"small", "large"}
    (True, True)
    """
    generator = random.Random(seed)
    if not equal_subjects or len(subjects) == 1:
        order = [(subject, document) for subject, documents in subjects.items() for document in documents]
        generator.shuffle(order)
        return order
    remaining = {subject: list(documents) for subject, documents in subjects.items()}
    for documents in remaining.values():
        generator.shuffle(documents)
    names, order = list(remaining), []
    while remaining[subject := generator.choice(names)]:
        order.append((subject, remaining[subject].pop()))
    return order
