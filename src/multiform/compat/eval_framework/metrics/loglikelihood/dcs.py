"""The distributional correctness score."""

from multiform.formats.dialects.metric_classes import DistributionalCorrectnessScore

__all__ = [
    "DistributionalCorrectnessScore",
]
