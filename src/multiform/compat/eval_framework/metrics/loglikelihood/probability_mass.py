"""The probability of the right completions."""

from multiform.formats.dialects.metric_classes import ProbabilityMass, ProbabilityMassNorm

__all__ = [
    "ProbabilityMass",
    "ProbabilityMassNorm",
]
