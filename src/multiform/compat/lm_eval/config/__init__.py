"""The configurations of tasks, groups and runs."""

from multiform.compat.lm_eval.config.evaluate_config import EvaluatorConfig
from multiform.compat.lm_eval.config.group import AggMetricConfig, GroupConfig
from multiform.compat.lm_eval.config.task import FewshotConfig, TaskConfig

__all__ = ["AggMetricConfig", "EvaluatorConfig", "FewshotConfig", "GroupConfig", "TaskConfig"]
