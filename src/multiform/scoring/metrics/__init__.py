"""The registered metrics."""

from multiform.scoring.metrics import choice, likelihood, text
from multiform.scoring.metrics.base import Metric, aggregations, build_metric, metrics, register_metric

__all__ = ["Metric", "aggregations", "build_metric", "choice", "likelihood", "metrics", "register_metric", "text"]
