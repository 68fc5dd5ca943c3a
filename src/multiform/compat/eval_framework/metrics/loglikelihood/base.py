"""The base of metrics of probabilities."""

from multiform.formats.measures import (
    BaseLoglikelihoodMetric,
)

__all__ = [
    "BaseLoglikelihoodMetric",
]
