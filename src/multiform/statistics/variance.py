"""How much of the variance of scores is documents, forms, few-shot examples, and the rest.

Crossed random effects, estimated by equating the mean squares of the analysis of variance with their
expectations (Searle, Casella and McCulloch, Variance Components, chapter 4). Interactions, such as a form that suits
some documents only, and noise are the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.scores import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """The variance of a single score, split by factor; a negative estimate counts as 0."""

    components: Mapping[str, float]
    rest: float

    @property
    def total(self) -> float:
        return sum(self.components.values()) + self.rest

    @property
    def shares(self) -> dict[str, float]:
        """The share of each factor, and of the rest; all 0 where the scores do not vary."""
        parts = {**self.components, "rest": self.rest}
        return {name: part / self.total if self.total else 0.0 for name, part in parts.items()}


def variance_split(values: ArrayLike, factors: Sequence[str] = ("document", "form")) -> VarianceSplit:
    """Split the variance of scores; `values` has an axis for each factor, e.g. document, form and shots.

    >>> split = variance_split([[1, 1], [1, 1], [0, 0], [0, 0]])
    >>> {name: round(share, 3) for name, share in split.shares.items()}
    {'document': 1.0, 'form': 0.0, 'rest': 0.0}
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != len(factors) or min(array.shape) < 2:
        what = f"{len(factors)} factors need as many axes with two or more levels each, got {array.shape}"
        raise DataError(what, hint="give an axis for each factor, with scores for every combination")
    squares = _mean_squares(array)
    everything = tuple(range(array.ndim))
    components = {subset: _component(array, subset, squares) for subset in squares}
    rest = sum(max(0.0, part) for subset, part in components.items() if len(subset) > 1 or subset == everything)
    return VarianceSplit(
        components={name: max(0.0, components[(axis,)]) for axis, name in enumerate(factors)}, rest=float(rest)
    )


def _mean_squares(array: Array) -> dict[tuple[int, ...], float]:
    """The mean square of every factor and interaction, keyed by their axes."""
    axes = range(array.ndim)
    squares = {}
    for size in range(1, array.ndim + 1):
        for subset in combinations(axes, size):
            effect = np.zeros([1] * array.ndim)
            for inner in range(size + 1):
                for kept in combinations(subset, inner):
                    others = tuple(axis for axis in axes if axis not in kept)
                    effect = effect + (-1) ** (size - inner) * array.mean(axis=others, keepdims=True)
            freedom = np.prod([array.shape[axis] - 1 for axis in subset])
            squares[subset] = float((effect**2).sum() * _repeats(array, subset) / freedom)
    return squares


def _component(array: Array, subset: tuple[int, ...], squares: Mapping[tuple[int, ...], float]) -> float:
    """The variance of one effect: its mean square less what interactions with other factors add to it."""
    around = [other for other in squares if set(subset) <= set(other)]
    signed = [squares[other] if (len(other) - len(subset)) % 2 == 0 else -squares[other] for other in around]
    return sum(signed) / _repeats(array, subset)


def _repeats(array: Array, subset: tuple[int, ...]) -> float:
    """How many values each level of an effect has."""
    return float(np.prod([array.shape[axis] for axis in range(array.ndim) if axis not in subset]))
