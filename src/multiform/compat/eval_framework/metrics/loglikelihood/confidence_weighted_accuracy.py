"""Accuracy weighted by confidence."""

from multiform.formats.dialects.metric_classes import ConfidenceWeightedAccuracy

__all__ = [
    "ConfidenceWeightedAccuracy",
]
