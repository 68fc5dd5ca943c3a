"""Accuracy weighted by confidence."""

from multiform.formats.measures import (
    ConfidenceWeightedAccuracy,
)

__all__ = [
    "ConfidenceWeightedAccuracy",
]
