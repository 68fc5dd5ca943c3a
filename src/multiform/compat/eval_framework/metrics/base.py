"""The base of all metrics, and what they give."""

from multiform.formats.measures import (
    BaseMetric,
)
from multiform.samples import (
    MetricResult,
)

__all__ = [
    "BaseMetric",
    "MetricResult",
]
