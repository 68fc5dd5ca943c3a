"""The registered metrics."""

from multiform.scoring.metrics import choice, text
from multiform.scoring.metrics.base import Metric, build_metric, metrics, register_metric, value_metric

__all__ = ["Metric", "build_metric", "choice", "metrics", "register_metric", "text", "value_metric"]
