"""The distributional correctness score."""

from multiform.formats.measures import (
    DistributionalCorrectnessScore,
)

__all__ = [
    "DistributionalCorrectnessScore",
]
