"""FormMeans: the mean of every form with its standard error, and how the means vary together.

The standard errors allow for clusters of documents (CR2 of Bell and McCaffrey, with their degrees of
freedom); with a cluster for each document they are the sample standard errors. The mean of a group is
that of its subjects, each of which is a sample of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.scores import Array, DocumentScores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FormMeans:
    """The means of several forms over the same documents."""

    values: Array
    #: The covariance of the means.
    covariance: Array
    #: The degrees of freedom of the covariance; infinite for rates of independent documents, which have Wilson's
    #: interval.
    freedom: float
    n: int
    #: Whether the means are rates of successes.
    rates: bool

    @property
    def stderrs(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    @property
    def largest_difference(self) -> float:
        """How far apart two means can be: 1 for rates."""
        return 1.0 if self.rates else np.inf

    def critical(self, level: float = LEVEL) -> float:
        """How many standard errors a two-sided interval is wide to each side."""
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def bounds(self, critical: float) -> tuple[Array, Array]:
        """The bounds of every mean, so many standard errors away: Wilson's for rates, Student's for other means.

        The number of documents in Wilson's formula is the effective one where documents are clustered or weighted.
        """
        if not self.rates:
            half = critical * self.stderrs
            return self.values - half, self.values + half
        p, n = self.values, self._effective()
        square = critical**2
        centre = (p + square / (2 * n)) / (1 + square / n)
        half = critical * np.sqrt(p * (1 - p) / n + square / (4 * n * n)) / (1 + square / n)
        # Exactly 0 and 1 where the rate is, which rounding would miss.
        low = np.where(p > 0, np.maximum(0.0, centre - half), 0.0)
        high = np.where(p < 1, np.minimum(1.0, centre + half), 1.0)
        return low, high

    def _effective(self) -> Array:
        """The number of independent documents that would give the same standard errors."""
        variance, single = np.diag(self.covariance), self.values * (1 - self.values)
        known = (variance > 0) & (single > 0)
        return np.where(known, 1 + single / np.where(known, variance, 1.0), float(self.n))

    def estimates(self, level: float = LEVEL) -> list[Estimate]:
        """The mean of every form with its standard error and interval."""
        low, high = self.bounds(self.critical(level))
        columns = zip(self.values, self.stderrs, low, high, strict=True)
        return [
            Estimate(value=float(mean), n=self.n, stderr=float(error), low=float(below), high=float(above))
            for mean, error, below, above in columns
        ]


def form_means(scores: DocumentScores) -> FormMeans:
    """The means of all forms, with their covariance."""
    subjects = [_subject_means(scores, subject) for subject in np.unique(scores.subjects)]
    covariance = sum((share**2 * part for share, _, part, _ in subjects), np.zeros((scores.values.shape[1],) * 2))
    traces = np.array([share**2 * np.trace(part) for share, _, part, _ in subjects])
    freedoms = np.array([freedom for _, _, _, freedom in subjects])
    if scores.binary and not scores.clustered:
        freedom = np.inf
    elif traces.any():  # Satterthwaite's, for a sum of independent variances
        freedom = float(traces.sum() ** 2 / (traces**2 / freedoms).sum())
    else:
        freedom = float(freedoms.sum())
    return FormMeans(
        values=np.sum([share * mean for share, mean, _, _ in subjects], axis=0),
        covariance=covariance,
        freedom=freedom,
        n=scores.n,
        rates=scores.binary,
    )


def mean_of(scores: DocumentScores, column: Array) -> Estimate:
    """The mean of one value for each document."""
    return form_means(scores.of(column)).estimates()[0]


def _subject_means(scores: DocumentScores, subject: int) -> tuple[float, Array, Array, float]:
    """The weight of a subject, its means, their covariance, and its degrees of freedom."""
    inside = scores.subjects == subject
    values, n = scores.values[inside], int(inside.sum())
    _, clusters, sizes = np.unique(scores.clusters[inside], return_inverse=True, return_counts=True)
    mean = values.mean(axis=0)
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, clusters, values - mean)
    inflation = 1 / (1 - sizes / n)
    covariance = (sums * inflation[:, None]).T @ sums / n**2
    squares = inflation * sizes.astype(np.float64) ** 2
    freedom = n**2 / (np.sum(sizes.astype(np.float64) ** 2) + (squares.sum() ** 2 - np.sum(squares**2)) / n**2)
    return float(scores.weights[inside].sum() / scores.weights.sum()), mean, covariance, float(freedom)
