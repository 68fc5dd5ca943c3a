"""Where to spend evaluations: what scores vary by, and how many documents, wordings, draws of few-shot examples and
repeats a wanted interval or difference needs.

Variances are split by equating the mean squares of the analysis of variance of crossed random effects with their
expectations (Searle, Casella and McCulloch, Variance Components, chapter 4). Interactions, such as a format that suits
some documents only, and noise are the rest. Few-shot examples are nested in documents, as each document has its own.

Draws of examples and repeats cost as much as further documents and help less, so that they pay only where there are no
more documents. The power to detect a difference is that of McNemar's exact test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrik, gammaln, xlog1py, xlogy

from multiform.errors import DataError
from multiform.statistics.estimates import ALPHA, LEVEL
from multiform.statistics.means import Array, DocumentScores


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

    >>> from multiform.statistics.means import document_scores
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
    # The variance of an effect is its mean square less what interactions with other factors add to it.
    effects = {
        subset: math.fsum(
            squares[other] * math.prod(-retained[axis] for axis in {*other} - {*subset})
            for other in squares
            if {*subset} <= {*other}
        )
        for subset in squares
    }
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
    for subset in (subset for size in axes for subset in combinations(axes, size + 1)):
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


#: Numbers of wordings, draws and repeats that are tried.
_WORDINGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_DRAWS = _REPEATS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The variances of a single score: between documents, wordings, draws of examples and repeats, and what is left.

    The rest is what suits some documents only, such as a wording. Where a pilot has no repeats, their variance is not
    known, and is a part of the rest.
    """

    document: float
    wording: float
    rest: float
    shots: float = 0.0
    repeat: float = 0.0

    def split_repeats(self, variance: float, repeats: int) -> Components:
        """The components of a pilot with this number of repeats, whose variance was in the rest so far."""
        return replace(self, rest=max(0.0, self.rest - variance / repeats), repeat=variance)

    def variance(self, design: RunDesign) -> float:
        """The variance of the mean over a design."""
        documents, wordings, draws = design.documents, design.wordings, design.draws
        return (
            self.document / documents
            + self.wording / wordings
            + self.shots / (documents * draws)
            + (self.rest + self.repeat / design.repeats) / (documents * wordings * draws)
        )

    def half_width(self, design: RunDesign) -> float:
        """Half the interval of the mean over a design."""
        return NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(self.variance(design))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDesign:
    """How many documents, wordings, draws of few-shot examples and repeats are evaluated."""

    documents: int
    wordings: int = 1
    draws: int = 1
    repeats: int = 1

    @property
    def evaluations(self) -> int:
        return self.documents * self.wordings * self.draws * self.repeats


def repeat_variance(values: ArrayLike, repeats: int) -> float | None:
    """The variance between repeats of a document, from the share of its repeats that are right.

    None where that is not known: there is one repeat, or the values are not such shares.

    >>> repeat_variance([0.5, 1.0, 0.0, 0.5], repeats=2)
    0.25
    """
    shares = np.asarray(values, dtype=np.float64)
    counts = shares * repeats
    if repeats < 2 or not np.allclose(counts, counts.round()) or ((shares < 0) | (shares > 1)).any():
        return None
    return float((shares * (1 - shares)).mean()) * repeats / (repeats - 1)


def cheapest_design(components: Components, half_width: float, *, documents: int) -> RunDesign | None:
    """The design with the fewest evaluations whose interval is no wider than ± `half_width`; None where none is.

    There are `documents` at the most. Draws of examples and repeats are varied where their variance is known.

    >>> pilot = Components(document=0.16, wording=0.0009, rest=0.06)
    >>> cheapest_design(pilot, 0.03, documents=2000)
    RunDesign(documents=1376, wordings=8, draws=1, repeats=1)
    >>> cheapest_design(pilot, 0.01, documents=500) is None
    True
    """
    if not 0 < half_width < math.inf:
        raise DataError(f"expected a half width above 0, got {half_width}", hint="give e.g. 0.02 for ± 0.02")
    variance = (half_width / NormalDist().inv_cdf((1 + LEVEL) / 2)) ** 2
    draws, repeats = _DRAWS if components.shots else (1,), _REPEATS if components.repeat else (1,)
    designs = []
    for wordings, draw, repeat in product(_WORDINGS, draws, repeats):
        left = variance - components.wording / wordings
        rest = components.rest + components.repeat / repeat
        single = components.document + components.shots / draw + rest / (wordings * draw)
        needed = max(2, math.ceil(single / left)) if left > 0 else math.inf
        if needed <= documents:
            designs.append(RunDesign(documents=int(needed), wordings=wordings, draws=draw, repeats=repeat))
    return min(designs, key=lambda design: (design.evaluations, design.wordings), default=None)


#: The probability of detection.
POWER = 0.8
#: How often two forms differ on a document, where that is not known yet.
FLIP_RATE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest true difference between two forms that is found with the given power."""

    #: None where so few documents cannot tell apart any two forms.
    difference: float | None
    n: int
    #: How often the forms differ on a document: as assumed, or as often as the difference needs.
    flip_rate: float


def mcnemar_power(n: int, difference: float, *, flip_rate: float = FLIP_RATE, comparisons: int = 1) -> float:
    """How probably McNemar's exact test finds a true difference between two forms on the same n documents.

    `flip_rate` is how often one form is right where the other is wrong; it cannot be less than the difference. With
    several `comparisons`, each has to pass a level of 0.05 divided by their number, as the largest of them has to under
    Holm's correction.

    >>> round(mcnemar_power(1000, 0.04), 2), round(mcnemar_power(20, 0.2), 2)
    (0.79, 0.2)
    """
    flips = min(1.0, max(flip_rate, difference))
    if flips == 0:
        return 0.0
    counts = np.arange(n + 1)
    log = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    weights = np.exp(log + xlogy(counts, flips) + xlog1py(n - counts, -flips))
    counts, weights = counts[weights > 1e-15], weights[weights > 1e-15]
    # The most documents that the worse form may win for the test to reject.
    tail = ALPHA / comparisons / 2
    most = np.floor(np.nan_to_num(bdtrik(tail, counts, 0.5), nan=-1.0) + 1e-9)
    least = np.maximum(most, 0.0)
    rejects = (most >= 0) & (bdtr(least, counts, 0.5) <= tail * (1 + 1e-9))
    wins = min(1.0, (flips + difference) / (2 * flips))
    either = bdtr(least, counts, wins) + bdtr(least, counts, 1 - wins)
    return float(weights @ np.where(rejects, either, 0.0))


def detectable_difference(n: int, *, flip_rate: float = FLIP_RATE, comparisons: int = 1) -> Detectable:
    """The smallest difference in accuracy between two forms on the same n documents.

    Of documents in clusters, n is the number of clusters or of effective documents.

    >>> round(detectable_difference(1000).difference, 3)
    0.04
    """
    if mcnemar_power(n, 1.0, comparisons=comparisons) < POWER:
        return Detectable(difference=None, n=n, flip_rate=1.0)
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        is_found = mcnemar_power(n, middle, flip_rate=flip_rate, comparisons=comparisons) >= POWER
        low, high = (low, middle) if is_found else (middle, high)
    return Detectable(difference=high, n=n, flip_rate=max(flip_rate, high))


def needed_documents(difference: float, *, flip_rate: float = FLIP_RATE, comparisons: int = 1) -> int:
    """How many documents it takes to detect a difference between two forms.

    >>> needed_documents(0.04)
    1021
    """
    if not 0 < difference <= 1:
        raise DataError(f"expected a difference above 0 and up to 1, got {difference}", hint="give e.g. 0.02")

    def detects(n: int) -> bool:
        return mcnemar_power(n, difference, flip_rate=flip_rate, comparisons=comparisons) >= POWER

    quantiles = NormalDist().inv_cdf(1 - ALPHA / comparisons / 2) + NormalDist().inv_cdf(POWER)
    n = max(1, math.ceil(quantiles**2 * (max(flip_rate, difference) / difference**2 - 1)))  # without discreteness
    while not detects(n):
        n += max(1, n // 200)
    while n > 1 and detects(n - 1):
        n -= 1
    return n
