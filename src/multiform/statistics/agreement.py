"""Whether forms agree on single documents: right under all of them, flips, the same predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.estimates import Estimate
from multiform.statistics.means import mean_of
from multiform.statistics.scores import Array, DocumentScores

#: Stands for a prediction that could not be extracted, which agrees with no other.
MISSING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rightness:
    """Shares of the documents that are right under all forms, under some and under none."""

    under_all: Estimate
    under_some: Estimate
    under_none: Estimate
    #: How often two forms differ on a document: one right, the other wrong.
    flip_rate: Estimate


def rightness(scores: DocumentScores) -> Rightness:
    """How the forms get documents right together; for scores that are right or wrong.

    >>> from multiform.statistics.scores import document_scores
    >>> shares = rightness(document_scores([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 0]]))
    >>> shares.under_all.value, shares.under_some.value, shares.under_none.value, round(shares.flip_rate.value, 4)
    (0.25, 0.25, 0.5, 0.1667)
    """
    if not scores.binary:
        raise DataError("scores between right and wrong have no flips", hint="use a metric such as acc")
    forms = scores.values.shape[1]
    right = scores.values.sum(axis=1)
    pairs = forms * (forms - 1) / 2
    return Rightness(
        under_all=mean_of(scores, right == forms),
        under_some=mean_of(scores, (right > 0) & (right < forms)),
        under_none=mean_of(scores, right == 0),
        flip_rate=mean_of(scores, right * (forms - right) / pairs),
    )


def agreement(scores: DocumentScores, predictions: ArrayLike) -> Estimate:
    """How often two forms lead to the same prediction: the share of pairs of forms, averaged over documents.

    `predictions` has a row for each document of `scores` and a column for each form, such as the index of the choice.
    """
    codes = np.asarray(predictions, dtype=np.int64)
    forms = codes.shape[1]
    equal = np.zeros(len(codes))
    for first in range(forms):
        agrees = (codes[:, first + 1 :] == codes[:, [first]]) & (codes[:, [first]] != MISSING)
        equal += agrees.sum(axis=1)
    return mean_of(scores, equal / (forms * (forms - 1) / 2))


def fleiss_kappa(predictions: ArrayLike) -> float:
    """Fleiss' kappa: agreement beyond what the frequencies of the predictions alone would give.

    1 is perfect agreement, 0 that of chance. Not a number where there is one prediction only. A prediction that is
    missing agrees with no other, not even by chance.

    >>> fleiss_kappa([[0, 0], [1, 1], [0, 1], [1, 0]])
    0.0
    """
    codes = np.asarray(predictions, dtype=np.int64)
    forms = codes.shape[1]
    known = [code for code in np.unique(codes) if code != MISSING]
    counts: Array = np.array([(codes == code).sum(axis=1) for code in known], dtype=np.float64).reshape(-1, len(codes))
    observed = float((counts * (counts - 1)).sum(axis=0).mean() / (forms * (forms - 1)))
    expected = float(((counts.sum(axis=1) / codes.size) ** 2).sum())
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")
