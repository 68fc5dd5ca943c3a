"""How much of the variance of scores is documents, formats, few-shot examples, and the rest.

Crossed random effects, estimated by equating the mean squares of the analysis of variance with their
expectations (Searle, Casella and McCulloch, Variance Components, chapter 4). Interactions, such as a format that suits
some documents only, and noise are the rest. Few-shot examples are nested in documents, as each document has its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from multiform.errors import DataError
from multiform.statistics.scores import Array, DocumentScores


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """The variance of a single score, split by factor; a negative estimate counts as 0."""

    components: Mapping[str, float]
    rest: float
    #: The columns of the scores that were split: all forms, or those of the formats that have every draw of examples.
    forms: tuple[int, ...] = ()

    @property
    def total(self) -> float:
        return sum(self.components.values()) + self.rest

    @property
    def shares(self) -> dict[str, float]:
        """The share of each factor, and of the rest; all 0 where the scores do not vary."""
        components = {**self.components, "rest": self.rest}
        return {name: part / self.total if self.total else 0.0 for name, part in components.items()}


def form_variance(scores: DocumentScores, formats: Sequence[str], draws: Sequence[str]) -> VarianceSplit | None:
    """Split the variance of the scores of forms, each of which is a format with one draw of few-shot examples.

    Draws are a factor of their own where there are several. Formats that lack one of them are then left out; None where
    no format has them all.

    >>> from multiform.statistics.scores import document_scores
    >>> scores = document_scores([[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 0, 1]])
    >>> split = form_variance(scores, ["mcqa", "mcqa", "cloze", "cloze"], ["0", "1", "0", "1"])
    >>> list(split.shares)
    ['document', 'format', 'shots', 'rest']
    """
    columns = {pair: index for index, pair in enumerate(zip(formats, draws, strict=True))}
    all_draws = list(dict.fromkeys(draws))
    complete = [name for name in dict.fromkeys(formats) if all((name, draw) in columns for draw in all_draws)]
    if not complete:
        return None
    used = [columns[name, draw] for name in complete for draw in all_draws]
    sizes = {"format": len(complete), "shots": len(all_draws)}
    factors = [factor for factor, size in sizes.items() if size > 1]
    values = scores.values[:, used].reshape(-1, *(sizes[factor] for factor in factors))
    split = variance_split(values, ("document", *factors), weights=scores.weights, nested=("shots",))
    return replace(split, forms=tuple(sorted(used)))


def variance_split(
    values: ArrayLike,
    factors: Sequence[str] = ("document", "format"),
    *,
    weights: ArrayLike | None = None,
    nested: Sequence[str] = (),
) -> VarianceSplit:
    """Split the variance of scores; `values` has an axis for each factor, e.g. document, format and shots.

    `weights` are those of the levels of the first factor, by default equal. The levels of `nested` factors are others
    for each level of the first, so that their interaction with it is a part of them.

    >>> split = variance_split([[1, 1], [1, 1], [0, 0], [0, 0]])
    >>> {name: round(share, 3) for name, share in split.shares.items()}
    {'document': 1.0, 'format': 0.0, 'rest': 0.0}
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != len(factors) or min(array.shape) < 2:
        message = f"{len(factors)} factors need as many axes with two or more levels each, got {array.shape}"
        raise DataError(message, hint="give an axis for each factor, with scores for every combination")
    levels = [np.full(size, 1 / size) for size in array.shape]
    if weights is not None:
        levels[0] = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    #: What the mean over a factor leaves of the variance of an effect: 1 / n for n levels of equal weight.
    retained = [float(np.sum(level**2)) for level in levels]
    squares = _mean_squares(array, levels, retained)
    effects = {subset: _component(subset, squares, retained) for subset in squares}
    components = {
        name: effects.pop((axis,)) + (effects.pop((0, axis)) if name in nested else 0.0)
        for axis, name in enumerate(factors)
    }
    return VarianceSplit(
        components={name: max(0.0, component) for name, component in components.items()},
        rest=sum(max(0.0, effect) for effect in effects.values()),
    )


def _mean_squares(array: Array, levels: Sequence[Array], retained: Sequence[float]) -> dict[tuple[int, ...], float]:
    """The mean square of every factor and interaction, keyed by their axes."""
    axes = range(array.ndim)
    squares = {}
    for size in range(1, array.ndim + 1):
        for subset in combinations(axes, size):
            effect = array
            for axis in axes:
                mean = _mean(effect, axis, levels[axis])
                effect = effect - mean if axis in subset else mean
            square = effect**2
            for axis in subset:
                square = _mean(square, axis, levels[axis])
            squares[subset] = float(square.squeeze()) / math.prod(1 - retained[axis] for axis in subset)
    return squares


def _mean(array: Array, axis: int, weights: Array) -> Array:
    """The weighted mean over an axis, which stays with one level."""
    return np.expand_dims(np.tensordot(weights, array, axes=(0, axis)), axis)


def _component(subset: tuple[int, ...], squares: Mapping[tuple[int, ...], float], retained: Sequence[float]) -> float:
    """The variance of one effect: its mean square less what interactions with other factors add to it."""
    around = {other: set(other) - set(subset) for other in squares if set(subset) <= set(other)}
    return math.fsum(squares[other] * math.prod(-retained[axis] for axis in more) for other, more in around.items())
