"""The base of metrics of probabilities."""

from multiform.formats.dialects.metric_classes import BaseLoglikelihoodMetric

__all__ = [
    "BaseLoglikelihoodMetric",
]
