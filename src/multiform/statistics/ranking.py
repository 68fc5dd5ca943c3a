"""Whether models keep their order from form to form: reversals, and Kendall's tau."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.paired import mcnemar, sign_flip_test
from multiform.statistics.scores import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """Two models whose order under one form is the reverse of that under another."""

    better: int
    worse: int
    form: int
    reversed_under: int
    #: How much better the first model is under `form`, and how much worse under `reversed_under`.
    lead: float
    deficit: float
    #: Whether both differences are significant by themselves, at 5 %.
    significant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStability:
    """How stable the order of models is across forms."""

    reversals: tuple[Reversal, ...]
    #: The share of pairs of models and pairs of forms that reverse, and that do so significantly.
    reversal_rate: float
    significant_rate: float
    #: Kendall's tau-b between the orders under two forms: the mean and the smallest of all pairs of forms.
    mean_tau: float
    min_tau: float


def rank_stability(scores: ArrayLike, *, at_least: float = 0.0, seed: int = 0) -> RankStability:
    """The stability of the order of models; `scores` has axes for models, documents and forms.

    `at_least` is the difference that counts: with 0.02, a reversal is two points or more in both directions.
    """
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 3 or array.shape[0] < 2 or array.shape[2] < 2:
        message = f"expected scores of two or more models, documents and two or more forms, got {array.shape}"
        raise DataError(message, hint="evaluate the models on the same documents and forms")
    means = array.mean(axis=1)
    models, forms = means.shape
    reversals: list[Reversal] = []
    for first, second in combinations(range(models), 2):
        lead = means[first] - means[second]
        p = _tests(array[first] - array[second], seed)
        for form, rival in combinations(range(forms), 2):
            if min(abs(lead[form]), abs(lead[rival])) < at_least or lead[form] * lead[rival] >= 0:
                continue
            better, worse = (first, second) if lead[form] > 0 else (second, first)
            reversals.append(
                Reversal(
                    better=better,
                    worse=worse,
                    form=form,
                    reversed_under=rival,
                    lead=abs(float(lead[form])),
                    deficit=abs(float(lead[rival])),
                    significant=bool(max(p[form], p[rival]) < 0.05),
                )
            )
    compared = models * (models - 1) / 2 * forms * (forms - 1) / 2
    taus = np.array([kendall_tau(means[:, a], means[:, b]) for a, b in combinations(range(forms), 2)])
    known = taus[~np.isnan(taus)]
    return RankStability(
        reversals=tuple(reversals),
        reversal_rate=len(reversals) / compared,
        significant_rate=sum(reversal.significant for reversal in reversals) / compared,
        mean_tau=float(known.mean()) if len(known) else float("nan"),
        min_tau=float(known.min()) if len(known) else float("nan"),
    )


def _tests(differences: Array, seed: int) -> Array:
    """A p value for each form, from the differences of two models on every document."""
    if np.isin(differences, (-1.0, 0.0, 1.0)).all():
        return mcnemar((differences > 0).sum(axis=0), (differences < 0).sum(axis=0))
    return sign_flip_test(differences, seed=seed)


def kendall_tau(first: ArrayLike, second: ArrayLike) -> float:
    """Kendall's tau-b of two lists of scores; not a number where all scores of a list are equal.

    >>> kendall_tau([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    upper = np.triu_indices(len(np.asarray(first)), 1)
    signs = [np.sign(np.subtract.outer(side, side))[upper] for side in (np.asarray(first), np.asarray(second))]
    scale = np.sqrt((signs[0] ** 2).sum() * (signs[1] ** 2).sum())
    return float((signs[0] * signs[1]).sum() / scale) if scale else float("nan")
