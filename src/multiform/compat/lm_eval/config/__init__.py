"""The configurations of tasks and groups."""

from multiform.compat.lm_eval.config.group import GroupConfig
from multiform.compat.lm_eval.config.task import FewshotConfig, TaskConfig

__all__ = ["FewshotConfig", "GroupConfig", "TaskConfig"]
