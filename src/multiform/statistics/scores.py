"""DocumentScores: the scores of the same documents under several forms, with what makes documents dependent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multiform.errors import DataError

Array: TypeAlias = NDArray[np.float64]
Indexes: TypeAlias = NDArray[np.int64]

#: Random numbers that a test or an interval draws at a time, to bound the memory.
CHUNK = 4_000_000


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


def pooled(subjects: Sequence[DocumentScores], weights: Sequence[float]) -> DocumentScores:
    """The scores of a group: those of its subjects, each with a weight.

    >>> subjects = [document_scores([[1, 0], [1, 1]]), document_scores([[0, 0], [0, 0], [1, 1], [0, 1]])]
    >>> pooled(subjects, [1, 1]).weights.tolist()
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
