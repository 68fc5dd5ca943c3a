"""Position bias: which positions among the choices a model prefers, whatever stands there.

Every document compares the position that was picked with that of the right choice. A model without bias
picks each position as often as it is right, even where its picks are wrong; the test of Stuart and Maxwell says whether
the two distributions differ. The spread of the recalls is RStd of Zheng et al. (arXiv 2309.03882).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from multiform.errors import DataError
from multiform.statistics.estimates import Estimate
from multiform.statistics.means import form_means
from multiform.statistics.paired import difference_estimates
from multiform.statistics.scores import Indexes, document_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One position among the choices."""

    #: How often it is picked, and how often it is right.
    picked: Estimate
    gold: Estimate
    #: How much more often it is picked than it is right.
    excess: Estimate
    #: How often it is picked where it is right; not a number where it never is.
    recall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """The positions of the choices, and whether the model prefers some of them."""

    positions: tuple[Position, ...]
    #: The position with the largest excess.
    preferred: int
    #: The standard deviation of the recalls.
    recall_std: float
    #: Stuart and Maxwell's test that positions are picked as often as they are right.
    p: float


def position_bias(picked: ArrayLike, gold: ArrayLike, clusters: Sequence[Hashable] | None = None) -> PositionBias:
    """The position bias of a form, from the picked and the right index for each document.

    `clusters` holds the cluster of each document, such as the name of its passage; by default each is its own.

    >>> bias = position_bias([0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 2, 1])
    >>> bias.preferred, [round(position.excess.value, 2) for position in bias.positions]
    (0, [0.67, -0.17, -0.33, -0.17])
    """
    picks, golds = np.asarray(picked, dtype=np.int64), np.asarray(gold, dtype=np.int64)
    if picks.shape != golds.shape or len(picks) < 2:
        message = f"{len(picks)} picks and {len(golds)} right positions"
        raise DataError(message, hint="give one of each for two or more documents")
    count = int(max(picks.max(), golds.max())) + 1
    positions = tuple(_position(picks, golds, index, clusters) for index in range(count))
    recalls = np.array([position.recall for position in positions])
    return PositionBias(
        positions=positions,
        preferred=int(np.argmax([position.excess.value for position in positions])),
        recall_std=float(np.nanstd(recalls)),
        p=stuart_maxwell(picks, golds, clusters),
    )


def _position(picks: Indexes, golds: Indexes, index: int, clusters: Sequence[Hashable] | None) -> Position:
    means = form_means(document_scores(np.stack([picks == index, golds == index], axis=1), clusters))
    right = golds == index
    picked, gold = means.estimates()
    return Position(
        picked=picked,
        gold=gold,
        excess=difference_estimates(means, 0, 1)[0],
        recall=float((picks[right] == index).mean()) if right.any() else float("nan"),
    )


def stuart_maxwell(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | None = None) -> float:
    """The p value of the test that two classifications of the same documents have the same frequencies.

    The covariance is that of sums over clusters, which are the documents themselves by default.
    """
    pair = np.stack([np.asarray(first), np.asarray(second)])
    one_hot = (pair[:, :, None] == np.unique(pair)).astype(np.float64)
    differences = one_hot[0] - one_hot[1]
    if clusters is not None:
        numbers: dict[Hashable, int] = {}
        sums = np.zeros((len(set(clusters)), differences.shape[1]))
        np.add.at(sums, [numbers.setdefault(cluster, len(numbers)) for cluster in clusters], differences)
        differences = sums
    covariance, difference = differences.T @ differences, differences.sum(axis=0)
    rank = int(np.linalg.matrix_rank(covariance))
    if rank == 0:
        return 1.0
    statistic = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    return float(chdtrc(rank, statistic))
