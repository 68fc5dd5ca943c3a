"""The scorer `ratings`: how near the ratings in a completion are to those of its document (EQ-Bench)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.scoring.scorers.base import DocumentScorer, register_own_metric, register_scorer

_RATING = re.compile(r"(\w+):\s+(\d+)")
#: With which ratings at random get a score of 0.
_CHANCE = 0.7477

for _name, _about in (
    ("eqbench", "100 minus the distance of the ratings from the reference, 0 without ratings"),
    ("percent_parseable", "100 for a completion with a rating of each feeling of the reference, else 0"),
):
    register_own_metric(_name, f"{_about}; computed by the scorer `ratings`.", hint="write scorer: ratings")


@register_scorer("ratings")
@dataclass(kw_only=True, eq=False)
class Ratings(DocumentScorer):
    """How near the ratings in a completion, lines such as "Relief: 7", are to those of its document.

    `reference` is the field with a mapping: `emotion1` is what is rated first, `emotion1_score` its rating from 0 to
    10, and so on. If something is rated twice, the last rating counts.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("eqbench", "percent_parseable", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("eqbench", "percent_parseable")

    reference: FieldSpec = "reference"

    def __post_init__(self) -> None:
        self._fields = self.compile_fields("reference")

    def own_values(self, text: str, doc: Doc) -> Mapping[str, Any]:
        wanted = reference_ratings(self._fields["reference"].value(doc))
        ratings = {name: float(number) for name, number in _RATING.findall(text)}
        if ratings.keys() != wanted.keys():
            return {"eqbench": 0.0, "percent_parseable": 0.0}
        distance = math.fsum(scaled(abs(rating - wanted[name])) for name, rating in ratings.items())
        return {"eqbench": 10 * (10 - _CHANCE * distance), "percent_parseable": 100.0}


def reference_ratings(value: Any) -> dict[str, float]:
    """The ratings of a document by what is rated.

    >>> reference_ratings({"emotion1": "Relief", "emotion1_score": "7", "emotion2": "Pride", "emotion2_score": 0})
    {'Relief': 7.0, 'Pride': 0.0}
    """
    try:
        names = [key for key in value if f"{key}_score" in value]
        if not names:
            raise ValueError("nothing is rated")
        return {str(value[name]): float(value[f"{name}_score"]) for name in names}
    except (TypeError, ValueError) as error:
        message = f"expected a mapping with emotion1, emotion1_score and so on, got {shorten(value)}"
        raise DataError(message, where="scorer.kwargs.reference", hint="check the column") from error


def scaled(difference: float) -> float:
    """A difference of two ratings, of which small ones count less.

    >>> [round(scaled(difference), 2) for difference in (0, 1, 4, 5, 8)]
    [0.0, 0.17, 3.25, 4.99, 8]
    """
    if difference == 0 or difference > 5:
        return difference or 0.0
    return 6.5 / (1 + math.exp(-1.2 * (difference - 4)))
