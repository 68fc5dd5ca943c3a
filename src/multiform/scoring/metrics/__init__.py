"""The registered metrics."""

from multiform.scoring.aggregations import aggregations, register_aggregation
from multiform.scoring.metrics import choice, confidence, likelihood, text
from multiform.scoring.metrics.base import Metric, build_metric, metrics, register_metric, value_metric

__all__ = [
    "Metric",
    "aggregations",
    "build_metric",
    "choice",
    "confidence",
    "likelihood",
    "metrics",
    "register_aggregation",
    "register_metric",
    "text",
    "value_metric",
]
