"""Where to spend evaluations: how many documents, wordings, draws of few-shot examples and repeats a wanted interval
needs at the least cost, from the variance of a pilot.

The mean over wordings and documents has the variance

    document / D + wording / W + shots / (D · S) + rest / (D · W · S · R)

for D documents, W wordings, S draws of examples and R repeats. Draws and repeats cost as much as further documents and
help less, so that they pay only where there are no more documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

from multiform.errors import DataError
from multiform.statistics.estimates import LEVEL

#: Numbers of wordings, draws and repeats that are tried.
_WORDINGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_DRAWS = _REPEATS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The variances of a single score: between documents, wordings and draws of examples, and what is left."""

    document: float
    wording: float
    rest: float
    shots: float = 0.0

    def variance(self, design: RunDesign) -> float:
        """The variance of the mean over a design."""
        documents, wordings, draws = design.documents, design.wordings, design.draws
        return (
            self.document / documents
            + self.wording / wordings
            + self.shots / (documents * draws)
            + self.rest / (documents * wordings * draws * design.repeats)
        )

    def half_width(self, design: RunDesign, level: float = LEVEL) -> float:
        """Half the interval of the mean over a design."""
        return NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(self.variance(design))


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


def cheapest_design(
    components: Components, half_width: float, *, documents: int, shots: bool = False, repeats: bool = False
) -> RunDesign | None:
    """The design with the fewest evaluations whose interval is no wider than ± `half_width`; None where none is.

    There are `documents` at the most. `shots` and `repeats` say whether examples can be drawn anew and whether repeated
    evaluations differ.

    >>> pilot = Components(document=0.16, wording=0.0009, rest=0.06)
    >>> cheapest_design(pilot, 0.03, documents=2000)
    RunDesign(documents=1376, wordings=8, draws=1, repeats=1)
    >>> cheapest_design(pilot, 0.01, documents=500) is None
    True
    """
    if not 0 < half_width < math.inf:
        raise DataError(f"expected a half width above 0, got {half_width}", hint="give e.g. 0.02 for ± 0.02")
    variance = (half_width / NormalDist().inv_cdf((1 + LEVEL) / 2)) ** 2
    designs = list(_designs(components, variance, documents, _DRAWS if shots else (1,), _REPEATS if repeats else (1,)))
    return min(designs, key=lambda design: (design.evaluations, design.wordings), default=None)


def _designs(
    components: Components, variance: float, documents: int, draws: tuple[int, ...], repeats: tuple[int, ...]
) -> Iterator[RunDesign]:
    """For each number of wordings, draws and repeats, the fewest documents that are enough."""
    for wordings in _WORDINGS:
        left = variance - components.wording / wordings
        if left <= 0:
            continue
        for draw in draws:
            for repeat in repeats:
                single = components.document + components.shots / draw + components.rest / (wordings * draw * repeat)
                needed = max(2, math.ceil(single / left))
                if needed <= documents:
                    yield RunDesign(documents=needed, wordings=wordings, draws=draw, repeats=repeat)
