"""The catalog: finding tasks and groups in YAML files and Python classes.

A name is imported when it is first used: listing tasks needs none.
"""

from typing import TYPE_CHECKING

from multiform.imports.lazy import lazy_names

if TYPE_CHECKING:
    from multiform.catalog.design import Design
    from multiform.catalog.group import Group, Node, node_name
    from multiform.catalog.manager import TaskManager
    from multiform.catalog.python_tasks import PythonTask, task_classes

__all__ = [
    "Design",
    "Group",
    "Node",
    "PythonTask",
    "TaskManager",
    "node_name",
    "task_classes",
]

_HOMES = (
    "multiform.catalog.design",
    "multiform.catalog.group",
    "multiform.catalog.manager",
    "multiform.catalog.python_tasks",
)

__getattr__ = lazy_names(__name__, __all__, _HOMES)
