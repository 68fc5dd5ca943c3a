"""Scores of the same documents under several forms, and the means of the forms.

The standard errors allow for clusters of documents (CR2 of Bell and McCaffrey, with their degrees of freedom). The
mean of a group is that of its subjects, each of which is a sample of its own.

Scores that are all alike have a standard error of zero, and tell nothing of how documents depend on each other. The
intervals of rates allow for that: clusters then count as one document each, and a subject on which nothing varies as if
a few documents more were otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from multiform.errors import DataError
from multiform.statistics.estimates import LEVEL, Estimate, Shares, rate_bounds, skewed_bounds, skewness

Array: TypeAlias = NDArray[np.float64]
Indexes: TypeAlias = NDArray[np.int64]

#: Random numbers that a test or an interval draws at a time, to bound the memory.
CHUNK = 4_000_000
#: Resamples of the studentized bootstrap, and how many values have a mean that is normal enough for it.
_RESAMPLES = 1999
_NORMAL = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DocumentScores:
    """A row for each document and a column for each form; the mean of a form weighs its documents by `weights`."""

    values: Array
    #: The cluster of each document: documents with the same number, such as questions about one passage, are dependent.
    clusters: Indexes
    #: The subject of each document: each subject of a group is a sample of its own.
    subjects: Indexes
    #: The weight of each document; they add up to 1, and are equal within a subject.
    weights: Array

    @property
    def n(self) -> int:
        """The number of documents."""
        return len(self.values)

    @property
    def binary(self) -> bool:
        """Whether every score is right or wrong, 1 or 0."""
        return bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def clustered(self) -> bool:
        """Whether any two documents are in one cluster."""
        return len(np.unique(self.clusters)) < self.n

    def of(self, values: ArrayLike) -> DocumentScores:
        """Other values of the same documents: a column, or several."""
        columns = np.asarray(values, dtype=np.float64)
        return replace(self, values=columns[:, None] if columns.ndim == 1 else columns)

    def mean_of(self, column: ArrayLike) -> Estimate:
        """The mean of another value of the same documents."""
        return form_means(self.of(column)).estimates()[0]


def cluster_sums(values: Array, clusters: Indexes) -> Array:
    """The sums of the rows of each cluster."""
    _, numbers = np.unique(clusters, return_inverse=True)
    sums = np.zeros((int(numbers.max()) + 1, values.shape[1]))
    np.add.at(sums, numbers, values)
    return sums


def document_scores(values: ArrayLike, clusters: Sequence[Hashable] | None = None) -> DocumentScores:
    """The scores of one task: a row for each document, a column for each form.

    `clusters` holds the cluster of each document, such as the name of its passage; by default each is its own.

    >>> scores = document_scores([[1, 0], [1, 1], [0, 0]], clusters=["p1", "p1", "p2"])
    >>> scores.n, scores.binary, scores.clustered
    (3, True, True)
    """
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if not np.isfinite(columns).all():
        raise DataError("a score is not a number", hint="leave the document out under every form")
    n = len(columns)
    if clusters is None:
        numbers = np.arange(n)
    else:
        order: dict[Hashable, int] = {}
        numbers = np.array([order.setdefault(cluster, len(order)) for cluster in clusters], dtype=np.int64)
    if len(np.unique(numbers)) < 2:
        message = f"there {'is one cluster' if n > 1 else 'are fewer than two documents'}, which says nothing of others"
        raise DataError(message, hint="evaluate more documents")
    return DocumentScores(
        values=columns, clusters=numbers, subjects=np.zeros(n, dtype=np.int64), weights=np.full(n, 1 / n)
    )


def pool_subjects(subjects: Sequence[DocumentScores], weights: Sequence[float]) -> DocumentScores:
    """The scores of a group: those of its subjects, each with a weight.

    >>> subjects = [document_scores([[1, 0], [1, 1]]), document_scores([[0, 0], [0, 0], [1, 1], [0, 1]])]
    >>> pool_subjects(subjects, [1, 1]).weights.tolist()
    [0.25, 0.25, 0.125, 0.125, 0.125, 0.125]
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    offsets = np.cumsum([0, *(part.clusters.max() + 1 for part in subjects)])
    return DocumentScores(
        values=np.concatenate([part.values for part in subjects]),
        clusters=np.concatenate([part.clusters + offset for part, offset in zip(subjects, offsets, strict=False)]),
        subjects=np.concatenate([np.full(part.n, index) for index, part in enumerate(subjects)]),
        weights=np.concatenate([share * part.weights for part, share in zip(subjects, shares, strict=True)]),
    )


#: Variances of less than this are rounding errors.
_NONE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FormMeans:
    """The means of several forms over the same documents."""

    values: Array
    #: The covariance of the means.
    covariance: Array
    #: The degrees of freedom of the covariance; infinite for rates of independent documents, which have Wilson's
    #: interval.
    freedom: float
    #: The degrees of freedom of each mean by itself.
    freedoms: Array
    n: int
    #: Whether the means are rates of successes.
    rates: bool
    #: How many independent documents of equal weight there are if all of a cluster are alike (Kish's formula).
    equivalent: float
    #: How often two forms are right on the same document; on the diagonal, how often each is. For rates only.
    both_right: Array
    #: The variance that may be unseen, as nothing varies within a subject: of the mean of each form on the diagonal, of
    #: the differences between forms beside it. For rates only.
    unseen: Array
    #: The skewness of each mean, which is that of single values over the root of their number.
    skewness: Array
    #: Of values between 0 and 1 other than rates, such as F1, and of the rates of clusters: how many are above 0 and
    #: below 1.
    shares: tuple[Shares | None, ...] = ()

    @property
    def stderrs(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    @property
    def largest_difference(self) -> float:
        """How far apart two means can be: 1 for rates."""
        return 1.0 if self.rates else np.inf

    def critical(self, level: float = LEVEL) -> float:
        """The half width of a two-sided interval, in standard errors."""
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def bounds(self, critical: ArrayLike) -> tuple[Array, Array]:
        """The bounds of every mean, `critical` standard errors away; that may be a number for each.

        They are Wilson's for rates, and Student's with Hall's correction for other means. The number of documents in
        Wilson's formula is the effective one where documents are clustered or weighted.
        """
        criticals = np.broadcast_to(critical, self.values.shape).tolist()
        low, high = np.array([self._bound(form, number) for form, number in enumerate(criticals)]).T
        return low, high

    def _bound(self, form: int, critical: float) -> tuple[float, float]:
        """The bounds of one mean."""
        value = float(self.values[form])
        if self.rates:
            low, high = rate_bounds(value, float(self.effective_n[form]), critical)
        else:
            low, high = skewed_bounds(value, float(self.stderrs[form]), critical, float(self.skewness[form]))
        shares = self.shares[form]
        return (low, high) if shares is None else shares.extend(value, low, high, self.equivalent, critical)

    @property
    def effective_n(self) -> Array:
        """The number of independent documents that would give the same standard errors, for each rate."""
        return self.effective(np.diag(self.covariance), self.values * (1 - self.values), np.diag(self.unseen))

    def effective(self, variance: Array, single: Array, unseen: Array) -> Array:
        """The effective numbers of documents of some means, from their variances and those of single documents."""
        varies = (variance > _NONE * single) & (single > _NONE)
        return np.where(varies, 1 + single / np.where(varies, variance + unseen, 1.0), self.equivalent)

    def estimates(self, level: float = LEVEL) -> list[Estimate]:
        """The mean of every form with its standard error and interval, the same whatever other forms there are."""
        low, high = self.bounds(stdtrit(self.freedoms, (1 + level) / 2))
        return self.estimates_of(self.values, self.stderrs, low, high)

    def estimates_of(self, values: Array, stderrs: Array, low: Array, high: Array) -> list[Estimate]:
        """Numbers that follow from the means, in columns, as estimates."""
        rows = np.transpose([values, stderrs, low, high]).tolist()
        return [Estimate(value=value, n=self.n, stderr=error, low=low, high=high) for value, error, low, high in rows]


def form_means(scores: DocumentScores) -> FormMeans:
    """The means of all forms, with their covariance."""
    subjects = [_subject(scores, number) for number in np.unique(scores.subjects)]
    covariance = np.sum([subject.covariance for subject in subjects], axis=0)
    cubes = np.maximum(np.diag(covariance), 0.0) ** 1.5
    third = np.sum([subject.third for subject in subjects], axis=0)
    variances = np.array([np.diag(subject.covariance) for subject in subjects])
    subject_freedoms = np.array([subject.freedom for subject in subjects])
    rates, independent = scores.binary, not scores.clustered
    freedom = np.inf if rates and independent else _satterthwaite(variances.sum(axis=1), subject_freedoms)
    if rates and independent and len(subjects) == 1:
        freedoms = np.full(variances.shape[1], np.inf)
    else:
        # A subject on which nothing varies has the variance that it may hide, and its few degrees of freedom.
        seen = variances + [np.diag(subject.unseen) for subject in subjects]
        freedoms = np.array([_satterthwaite(column, subject_freedoms) for column in seen.T])
    return FormMeans(
        values=np.sum([subject.share * subject.means for subject in subjects], axis=0),
        covariance=covariance,
        freedom=freedom,
        freedoms=freedoms,
        n=scores.n,
        rates=rates,
        shares=tuple(_shares(scores, column, subjects) for column in scores.values.T),
        equivalent=float(1 / np.sum([subject.share**2 / subject.equivalent for subject in subjects])),
        both_right=np.sum([subject.share * subject.both_right for subject in subjects], axis=0),
        # The variance of many subjects is right on average; what a single one may hide is added once.
        unseen=np.max([subject.unseen for subject in subjects], axis=0),
        skewness=np.divide(third, cubes, out=np.zeros_like(third), where=cubes > 0),
    )


def _shares(scores: DocumentScores, column: Array, subjects: Sequence[_Subject]) -> Shares | None:
    """How many values, or rates of clusters, of a form are above 0 and below 1; None where that says nothing more."""
    if not scores.binary:
        return Shares.of(column.tolist())
    if not scores.clustered or len(subjects) > 1:
        return None
    _, clusters, sizes = np.unique(scores.clusters, return_inverse=True, return_counts=True)
    rates = np.bincount(clusters, weights=column) / sizes
    return Shares.of_clusters(rates.tolist(), sizes.tolist(), subjects[0].equivalent)


def _satterthwaite(variances: Array, freedoms: Array) -> float:
    """The degrees of freedom of a sum of independent variances."""
    if not variances.any():
        return float(freedoms.sum())
    return float(variances.sum() ** 2 / (variances**2 / freedoms).sum())


def dataset_estimates(scores: DocumentScores, total: int, *, level: float = LEVEL) -> list[Estimate]:
    """The mean of every form over a whole dataset of `total` documents, of which a random sample was evaluated.

    Documents, or whole clusters of them, were drawn without replacement. Only the mean of the other documents is
    uncertain: the variance is that of `form_means` times their share (finite-population correction). Rates of them are
    whole numbers of documents, so that their bounds are rounded outwards. The number of documents left limits the
    degrees of freedom; unless values are rates, shares or clustered, their mean is predicted from resamples, as both it
    and the sample's are skewed. With all documents evaluated, the interval is a point.

    >>> right = [1] * 70 + [0] * 30
    >>> for total in (100_000, 200, 100):
    ...     (estimate,) = dataset_estimates(document_scores(right), total)
    ...     print(round(estimate.low, 3), round(estimate.high, 3))
    0.604 0.781
    0.63 0.755
    0.7 0.7
    """
    means, number = form_means(scores), total - scores.n
    if number <= 0:
        return means.estimates_of(means.values, np.zeros_like(means.values), means.values, means.values)
    left = number / total
    freedom = np.inf if np.isinf(means.freedom) else max(1.0, means.equivalent * left / (1 - left) - 1)
    others = replace(
        means,
        covariance=means.covariance / left,
        unseen=means.unseen / left,
        equivalent=means.equivalent * left,
        skewness=means.skewness * (2 * left - 1) / math.sqrt(left),
        freedoms=np.minimum(means.freedoms, freedom),
    )
    estimates = []
    for form, estimate in enumerate(others.estimates(level)):
        low, high = estimate.interval
        if means.shares[form] is None and not means.rates and not scores.clustered and not scores.subjects.any():
            low, high = _predicted_bounds(scores.values[:, form], number, level)
        if means.rates:
            low, high = math.floor(low * number + 1e-9) / number, math.ceil(high * number - 1e-9) / number
        known = (1 - left) * estimate.value
        stderr = left * (estimate.stderr or 0.0)
        low, high = known + left * low, known + left * high
        estimates.append(Estimate(value=estimate.value, n=means.n, stderr=stderr, low=low, high=high))
    return estimates


def _predicted_bounds(values: Array, number: int, level: float) -> tuple[float, float]:
    """Where the mean of `number` other values of the same distribution is, by the studentized bootstrap.

    Resamples stand for the evaluated values and for the others. The mean of so many others that it is normal is drawn
    from that distribution. Where resamples often have one value only, as of fewer than five values or of many equal
    ones, they say too little, and the bounds are Student's.
    """
    n, scale = len(values), math.sqrt(1 / len(values) + 1 / number)
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    generator, roots = np.random.default_rng(0), []
    step = max(1, CHUNK // (n + min(number, _NORMAL)))
    for draws in (min(step, _RESAMPLES - start) for start in range(0, _RESAMPLES, step)):
        sample = values[generator.integers(n, size=(draws, n))]
        if number < _NORMAL:
            others = values[generator.integers(n, size=(draws, number))].mean(axis=1)
        else:
            others = generator.normal(mean, deviation / math.sqrt(number), size=draws)
        errors = sample.std(axis=1, ddof=1)
        varies = errors > 1e-9 * deviation  # but for rounding errors
        roots.append((others - sample.mean(axis=1))[varies] / (errors[varies] * scale))
    drawn, high = np.concatenate(roots), float(stdtrit(n - 1, (1 + level) / 2))
    low = -high
    if len(drawn) > 0.99 * _RESAMPLES:
        low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2)).tolist()
    return mean + low * deviation * scale, mean + high * deviation * scale


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Subject:
    """What a subject adds to the means of a group, of which it is a share."""

    share: float
    means: Array
    both_right: Array
    equivalent: float
    #: The part of the variance of the group's means; and the part that is unseen, as nothing varies.
    covariance: Array
    unseen: Array
    #: The part of the third central moment of the group's means.
    third: Array
    freedom: float


def _subject(scores: DocumentScores, number: int) -> _Subject:
    inside = scores.subjects == number
    values, n = scores.values[inside], int(inside.sum())
    sizes = np.unique(scores.clusters[inside], return_counts=True)[1].astype(np.float64)
    means, both_right = values.mean(axis=0), values.T @ values / n
    sums = cluster_sums(values - means, scores.clusters[inside])
    inflation = 1 / (1 - sizes / n)
    squares = inflation * sizes**2
    share = float(scores.weights[inside].sum() / scores.weights.sum())
    covariance = share**2 * ((sums * inflation[:, None]).T @ sums) / n**2
    skew = np.array([skewness(column) for column in sums.T.tolist()]) / np.sqrt(len(sizes))
    equivalent = float(n**2 / np.sum(sizes**2))
    return _Subject(
        share=share,
        means=means,
        both_right=both_right,
        equivalent=equivalent,
        covariance=covariance,
        unseen=share**2 * _unseen_variance(means, both_right, equivalent),
        third=skew * np.maximum(np.diag(covariance), 0.0) ** 1.5,
        freedom=float(n**2 / (np.sum(sizes**2) + (squares.sum() ** 2 - np.sum(squares**2)) / n**2)),
    )


def _unseen_variance(means: Array, both_right: Array, equivalent: float) -> Array:
    """The variances of rates and of their differences that a sample may have in which nothing varies.

    A rate has that of Agresti and Coull, with two more documents each way; a difference that of Bonett and Price, with
    one more each way.
    """
    rates = np.diag(both_right)
    single = np.add.outer(rates, rates) - 2 * both_right - np.subtract.outer(means, means) ** 2
    unseen = np.where(single > _NONE, 0.0, 2 / (equivalent + 2) ** 2)
    of_rates = np.where(rates * (1 - rates) > _NONE, 0.0, 2 * (equivalent + 2) / (equivalent + 4) ** 3)
    np.fill_diagonal(unseen, of_rates)
    return unseen
