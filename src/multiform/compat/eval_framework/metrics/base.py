"""The base of all metrics, and what they give."""

from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import MetricResult

__all__ = [
    "BaseMetric",
    "MetricResult",
]
