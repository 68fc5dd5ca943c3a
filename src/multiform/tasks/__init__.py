"""Tasks: what a task file states, and where; configurations, groups, datasets and the library.

A name is imported when it is first used: listing tasks needs none.
"""

from typing import TYPE_CHECKING

from multiform.imports.lazy import lazy_names

if TYPE_CHECKING:
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.design import Design
    from multiform.tasks.group import Group, Node, node_name
    from multiform.tasks.group_config import GroupConfig
    from multiform.tasks.keys import FewshotConfig, FilterPipeline, FilterStep, MetricConfig, ScorerConfig
    from multiform.tasks.manager import TaskManager
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

#: The light ones first: each is imported until one has the name.
_HOMES = (
    "multiform.tasks.source",
    "multiform.tasks.design",
    "multiform.tasks.yaml",
    "multiform.tasks.group_config",
    "multiform.tasks.keys",
    "multiform.tasks.config",
    "multiform.tasks.group",
    "multiform.tasks.manager",
    "multiform.tasks.python_tasks",
)

__getattr__ = lazy_names(__name__, __all__, _HOMES)
