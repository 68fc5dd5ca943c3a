"""The catalog: finding tasks and groups in YAML files and Python classes.

A name is imported when it is first used: listing tasks needs none.
"""

from typing import TYPE_CHECKING

from multiform.imports.lazy import lazy_names

if TYPE_CHECKING:
    from multiform.catalog.base_task import BaseTask, task_classes
    from multiform.catalog.design import Design
    from multiform.catalog.group import Group, Node, node_name
    from multiform.catalog.manager import TaskManager
    from multiform.catalog.styler_hooks import NO_SUBJECT

__all__ = [
    "NO_SUBJECT",
    "BaseTask",
    "Design",
    "Group",
    "Node",
    "TaskManager",
    "node_name",
    "task_classes",
]

_HOMES = (
    "multiform.catalog.base_task",
    "multiform.catalog.design",
    "multiform.catalog.group",
    "multiform.catalog.manager",
    "multiform.catalog.styler_hooks",
)

__getattr__ = lazy_names(__name__, __all__, _HOMES)
