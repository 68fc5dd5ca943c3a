"""Tasks: what a task file states, the `TaskConfig` that follows from it, and its dataset; nothing is rendered here.

A name is imported when it is first used: listing tasks needs none.
"""

from typing import TYPE_CHECKING

from multiform.imports import lazy_names

if TYPE_CHECKING:
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.group import Group, GroupConfig, Node, node_name
    from multiform.tasks.keys import FewshotConfig, FilterPipeline, FilterStep, MetricConfig, ScorerConfig
    from multiform.tasks.manager import Design, TaskManager
    from multiform.tasks.python_tasks import PythonTask, task_classes
    from multiform.tasks.source import Source, StatedKeys
    from multiform.tasks.yaml import read_yaml

__all__ = [
    "Design",
    "FewshotConfig",
    "FilterPipeline",
    "FilterStep",
    "Group",
    "GroupConfig",
    "MetricConfig",
    "Node",
    "PythonTask",
    "ScorerConfig",
    "Source",
    "StatedKeys",
    "TaskConfig",
    "TaskManager",
    "node_name",
    "read_yaml",
    "task_classes",
]

#: The module that each name comes from.
__getattr__ = lazy_names(
    __name__,
    {
        "config": ("TaskConfig",),
        "group": ("Group", "GroupConfig", "Node", "node_name"),
        "keys": ("FewshotConfig", "FilterPipeline", "FilterStep", "MetricConfig", "ScorerConfig"),
        "manager": ("Design", "TaskManager"),
        "python_tasks": ("PythonTask", "task_classes"),
        "source": ("Source", "StatedKeys"),
        "yaml": ("read_yaml",),
    },
)
