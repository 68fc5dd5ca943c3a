"""The probability of the right completions."""

from multiform.formats.measures import (
    ProbabilityMass,
    ProbabilityMassNorm,
)

__all__ = [
    "ProbabilityMass",
    "ProbabilityMassNorm",
]
