"""The best and the worst of many forms, found without evaluating every form on every document.

Successive elimination on paired scores: documents come in random order, and each is evaluated under the
forms that may still be the best or the worst. For each pair of forms a gambler bets, document by
document, that the first is better (a mixture over sizes of bets; see Waudby-Smith and Ramdas 2024). A
form cannot be the best once a gambler against it is rich enough. By Ville's inequality the truly best
and worst form are among the candidates at every moment, and therefore whenever the run stops, with
probability 1 - delta at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.scores import Array, Indexes

#: Shares of the capital that gamblers bet: small ones for small differences.
_BETS = np.geomspace(0.01, 0.8, 12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """The state of a search; `updated` gives the one after more documents."""

    delta: float
    #: The logarithm of each gambler's capital, with axes for the better form, the worse form and the size of the bet.
    capital: Array
    #: For each form, the sum of its scores and the number of its documents.
    totals: Array
    counts: Indexes
    #: Whether a form may still be the best, or the worst.
    maybe_best: np.ndarray
    maybe_worst: np.ndarray

    @property
    def best(self) -> list[int]:
        """The forms that may be the best; with probability 1 - delta, the best is one of them."""
        return [int(form) for form in np.flatnonzero(self.maybe_best)]

    @property
    def worst(self) -> list[int]:
        """The forms that may be the worst; with probability 1 - delta, the worst is one of them."""
        return [int(form) for form in np.flatnonzero(self.maybe_worst)]

    @property
    def wanted(self) -> list[int]:
        """The forms to evaluate on the next documents; none where the search is over."""
        undecided = np.zeros(len(self.counts), dtype=bool)
        for candidates in (self.maybe_best, self.maybe_worst):
            if candidates.sum() > 1:
                undecided |= candidates
        return [int(form) for form in np.flatnonzero(undecided)]

    @property
    def evaluations(self) -> int:
        """How many documents were evaluated so far, counted under each form."""
        return int(self.counts.sum())

    def updated(self, scores: ArrayLike) -> Search:
        """The state after more documents; `scores` has a row for each and a column for each of `wanted`."""
        forms = np.array(self.wanted, dtype=np.int64)
        rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        if rows.shape[1] != len(forms):
            raise DataError(f"scores of {rows.shape[1]} forms, where {len(forms)} are wanted", hint="see `wanted`")
        if ((rows < 0) | (rows > 1)).any():
            raise DataError("a score is not between 0 and 1", hint="a search needs a bounded metric, such as acc")
        among = np.ix_(forms, forms)
        capital, totals, counts = self.capital.copy(), self.totals.copy(), self.counts.copy()
        maybe_best, maybe_worst = self.maybe_best.copy(), self.maybe_worst.copy()
        threshold = np.log(2 * max(1, len(counts) - 1) / self.delta)
        for row in rows:
            capital[among] += np.log1p(np.subtract.outer(row, row)[:, :, None] * _BETS)
        beaten = np.logaddexp.reduce(capital[among], axis=2) - np.log(len(_BETS)) >= threshold
        maybe_best[forms] &= ~beaten.any(axis=0)
        maybe_worst[forms] &= ~beaten.any(axis=1)
        totals[forms] += rows.sum(axis=0)
        counts[forms] += len(rows)
        return Search(
            delta=self.delta,
            capital=capital,
            totals=totals,
            counts=counts,
            maybe_best=maybe_best,
            maybe_worst=maybe_worst,
        )


def new_search(forms: int, *, delta: float = 0.05) -> Search:
    """A search for the best and the worst of several forms, wrong with probability delta at most."""
    if forms < 2 or not 0 < delta < 1:
        raise DataError(f"cannot search {forms} forms with delta {delta}", hint="give two or more, and 0 < delta < 1")
    return Search(
        delta=delta,
        capital=np.zeros((forms, forms, len(_BETS))),
        totals=np.zeros(forms),
        counts=np.zeros(forms, dtype=np.int64),
        maybe_best=np.ones(forms, dtype=bool),
        maybe_worst=np.ones(forms, dtype=bool),
    )


def search_forms(
    evaluate: Callable[[range, list[int]], ArrayLike],
    *,
    documents: int,
    forms: int,
    budget: int | None = None,
    block: int = 10,
    delta: float = 0.05,
) -> Search:
    """Search until the best and the worst form are known, the budget is spent, or there are no more documents.

    `evaluate` gets positions in a random order of the documents and the forms that are wanted, and returns a row of
    scores for each position. `budget` is the largest number of evaluations.
    """
    search = new_search(forms, delta=delta)
    position = 0
    while search.wanted and position < documents:
        most_documents = documents if budget is None else (budget - search.evaluations) // len(search.wanted)
        step = min(block, documents - position, most_documents)
        if step < 1:
            break
        search = search.updated(evaluate(range(position, position + step), search.wanted))
        position += step
    return search
