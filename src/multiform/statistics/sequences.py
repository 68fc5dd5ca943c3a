"""Confidence sequences, and the search for the best and the worst of many forms with them.

A confidence sequence is an interval of a mean that holds at every number of documents at once, so that a run may look
at it as often as it likes and stop when it is narrow enough. For each candidate mean, gamblers bet that scores are
higher, and others that they are lower; a candidate at which they get rich together is excluded (Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024; the bets are a mixture over sizes).
Scores have to be between 0 and 1, and documents have to come in random order (`sampling`).

A search finds the best and the worst form without evaluating every form on every document. Within a budget, documents
go to the forms that look best and worst: successive halving on paired scores (Karnin, Koren and Somekh 2013), from both
ends at once. What is certain is judged independently of the race. For each pair of forms a gambler bets, document by
document, that the first is better; a form cannot be the best once a gambler against it is rich enough. By Ville's
inequality the truly best and worst form are among the candidates whenever the run stops, with probability 1 - delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.estimates import LEVEL, Estimate
from multiform.statistics.means import Array, Indexes

#: Candidate means; the bounds are rounded outwards to them.
_CANDIDATES = np.linspace(0.0, 1.0, 1001)
#: Shares of the capital that gamblers bet: small ones are for long runs.
_BETS = np.geomspace(0.01, 0.9, 10)
#: What each gambler bets per unit above, and per unit below a candidate mean.
_UP = _BETS / np.maximum(_CANDIDATES, 1e-9)[:, None]
_DOWN = _BETS / np.maximum(1 - _CANDIDATES, 1e-9)[:, None]


def _check_scores(scores: Array, what: str) -> None:
    if not ((scores >= 0) & (scores <= 1)).all():
        raise DataError("a score is not between 0 and 1", hint=f"{what} needs a bounded metric, such as acc")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfidenceSequence:
    """The state after some documents; `after` gives the one after more of them."""

    level: float
    n: int = 0
    total: float = 0.0
    #: The logarithm of the gamblers' capital, with axes for candidate means and gamblers.
    capital: Array = field(default_factory=lambda: np.zeros((len(_CANDIDATES), 2 * len(_BETS))))
    low: float = 0.0
    high: float = 1.0

    @property
    def estimate(self) -> Estimate:
        """The mean so far, with the interval."""
        return Estimate(value=self.total / self.n if self.n else 0.5, n=self.n, low=self.low, high=self.high)

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def after(self, values: ArrayLike) -> ConfidenceSequence:
        """The state after more documents."""
        scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
        _check_scores(scores, "a confidence sequence")
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
        n, total = self.n + len(scores), self.total + float(scores.sum())
        return replace(self, n=n, total=total, capital=capital, low=low, high=max(low, high))


def confidence_sequence(values: ArrayLike = (), *, level: float = LEVEL) -> ConfidenceSequence:
    """The confidence sequence of a mean after some scores between 0 and 1.

    >>> sequence = confidence_sequence([1, 0, 1, 1] * 100)
    >>> 0.65 < sequence.low < 0.75 < sequence.high < 0.85
    True
    """
    return ConfidenceSequence(level=level).after(values)


#: The number of forms in the last round of a budgeted search: two from each end.
_LAST = 4
#: Shares of the capital that gamblers bet: small ones for small differences.
_PAIR_BETS = np.geomspace(0.01, 0.8, 12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """The state of a search; `after` gives the one after more documents."""

    delta: float
    #: The logarithm of each gambler's capital, with axes for the better form, the worse form and the size of the bet.
    capital: Array
    #: For each form, the sum of its scores and the number of its documents.
    totals: Array
    counts: Indexes
    #: Whether a form may still be the best, or the worst.
    maybe_best: np.ndarray
    maybe_worst: np.ndarray
    #: The scores of the forms of the last round, a row for each of its documents and a column for each of `finalists`.
    finalists: tuple[int, ...] = ()
    final_scores: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def spread(self) -> float | None:
        """The best minus the worst mean, each measured on documents that took no part in picking the two forms.

        One half of the last round, with all documents before it, picks the forms, the other half measures them, and
        then the other way round. None where the last round has fewer than two documents.
        """
        rows, forms = self.final_scores, list(self.finalists)
        if len(rows) < 2:
            return None
        totals = self.totals[forms] - rows.sum(axis=0)
        half = len(rows) // 2
        spreads = []
        for picking, measuring in ((rows[:half], rows[half:]), (rows[half:], rows[:half])):
            ranked = totals + picking.sum(axis=0)
            means = measuring.mean(axis=0)
            spreads.append(float(means[ranked.argmax()] - means[ranked.argmin()]))
        return sum(spreads) / 2

    @property
    def best(self) -> list[int]:
        """The forms that may be the best; with probability 1 - delta, the best is one of them."""
        return np.flatnonzero(self.maybe_best).tolist()

    @property
    def worst(self) -> list[int]:
        """The forms that may be the worst; with probability 1 - delta, the worst is one of them."""
        return np.flatnonzero(self.maybe_worst).tolist()

    @property
    def undecided_forms(self) -> list[int]:
        """The forms to evaluate on the next documents; none where the search is over."""
        open_ends = [forms for forms in (self.best, self.worst) if len(forms) > 1]
        return sorted({form for forms in open_ends for form in forms})

    @property
    def means(self) -> Array:
        """The mean score of each form so far; not a number before its first document."""
        return np.asarray(self.totals / np.where(self.counts > 0, self.counts, np.nan))

    @property
    def best_and_worst(self) -> tuple[int, int]:
        """The candidates with the highest and the lowest mean, of those that were evaluated on the most documents."""
        best, worst = (
            np.where(maybe & (self.counts == self.counts[maybe].max()), self.means, np.nan)
            for maybe in (self.maybe_best, self.maybe_worst)
        )
        return int(np.nanargmax(best)), int(np.nanargmin(worst))

    @property
    def evaluations(self) -> int:
        """How many documents were evaluated so far, counted under each form."""
        return int(self.counts.sum())

    def after(self, scores: ArrayLike, chosen: Sequence[int] | None = None) -> Search:
        """The state after more documents; `scores` has a row for each and a column for each of the `chosen` forms.

        By default these are the `undecided_forms`.
        """
        forms = np.array(self.undecided_forms if chosen is None else chosen, dtype=np.int64)
        rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        if rows.shape[1] != len(forms):
            message = f"scores of {rows.shape[1]} forms, where {len(forms)} are wanted"
            raise DataError(message, hint="see `undecided_forms`")
        _check_scores(rows, "a search")
        among = np.ix_(forms, forms)
        capital, totals, counts = self.capital.copy(), self.totals.copy(), self.counts.copy()
        maybe_best, maybe_worst = self.maybe_best.copy(), self.maybe_worst.copy()
        threshold = np.log(2 * max(1, len(counts) - 1) / self.delta)
        for row in rows:
            capital[among] += np.log1p(np.subtract.outer(row, row)[:, :, None] * _PAIR_BETS)
        beaten = np.logaddexp.reduce(capital[among], axis=2) - np.log(len(_PAIR_BETS)) >= threshold
        maybe_best[forms] &= ~beaten.any(axis=0)
        maybe_worst[forms] &= ~beaten.any(axis=1)
        totals[forms] += rows.sum(axis=0)
        counts[forms] += len(rows)
        return replace(
            self, capital=capital, totals=totals, counts=counts, maybe_best=maybe_best, maybe_worst=maybe_worst
        )


def new_search(forms: int, *, delta: float = 0.05) -> Search:
    """A search for the best and the worst of several forms, wrong with probability delta at most."""
    if forms < 2 or not 0 < delta < 1:
        raise DataError(f"cannot search {forms} forms with delta {delta}", hint="give two or more, and 0 < delta < 1")
    return Search(
        delta=delta,
        capital=np.zeros((forms, forms, len(_PAIR_BETS))),
        totals=np.zeros(forms),
        counts=np.zeros(forms, dtype=np.int64),
        maybe_best=np.ones(forms, dtype=bool),
        maybe_worst=np.ones(forms, dtype=bool),
    )


#: Evaluates documents, by their positions in a random order, under some forms: a row of scores for each document.
Evaluate: TypeAlias = Callable[[range, list[int]], ArrayLike]


def search_forms(
    evaluate: Evaluate, *, documents: int, forms: int, budget: int | None = None, block: int = 10, delta: float = 0.05
) -> Search:
    """Search until the best and the worst form are known, the budget is spent, or there are no more documents.

    `budget` is the largest number of evaluations. It is spent in rounds of equal size, each with half the forms of the
    one before, down to two that may be the best and two that may be the worst.
    """
    search = new_search(forms, delta=delta)
    race, position = list(range(forms)), 0
    finalists: tuple[int, ...] = ()
    sizes = [forms] if budget is None else race_sizes(forms)
    for number, size in enumerate(sizes):
        race = race if size == forms else _ends(search, race, size)
        rows: list[Array] = []
        spent = search.evaluations
        share = None if budget is None else (budget - spent) // (len(sizes) - number)
        while position < documents:
            chosen = _forms_to_measure(search, race)
            most_documents = documents if share is None else (share - search.evaluations + spent) // max(1, len(chosen))
            step = min(block, documents - position, most_documents)
            if not chosen or step < 1:
                break
            scores = np.asarray(evaluate(range(position, position + step), chosen), dtype=np.float64)
            search = search.after(scores, chosen)
            position += step
            remaining = [finalists.index(form) for form in chosen] if rows else []
            rows = [*(earlier[:, remaining] for earlier in rows), scores]
            finalists = tuple(chosen)
    return search if not rows else replace(search, finalists=finalists, final_scores=np.concatenate(rows))


def race_sizes(forms: int) -> list[int]:
    """The number of forms in each round of a budgeted search.

    >>> race_sizes(32), race_sizes(5), race_sizes(3)
    ([32, 16, 8, 4], [5, 4], [3])
    """
    sizes = [forms]
    while sizes[-1] > _LAST:
        sizes.append(max(_LAST, 2 * (sizes[-1] // 4)))
    return sizes


def _forms_to_measure(search: Search, race: Sequence[int]) -> list[int]:
    """The forms of the race that are not decided yet; with them the best or the worst, where that is known already."""
    wanted = set(search.undecided_forms)
    known = [end[0] for end in (search.best, search.worst) if len(end) == 1]
    return [form for form in race if form in wanted or (wanted and form in known)]


def _ends(search: Search, race: Sequence[int], size: int) -> list[int]:
    """The undecided forms with the highest and with the lowest means, half of `size` each."""
    means = search.means
    ordered = sorted(_forms_to_measure(search, race), key=lambda form: means[form])
    half = size // 2
    return sorted({*ordered[:half], *ordered[-half:]})
