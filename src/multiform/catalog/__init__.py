"""The catalog: finding tasks and groups in YAML files and Python classes."""

from multiform.catalog.design import Design
from multiform.catalog.distinct import distinct, same_task
from multiform.catalog.group import Group, Node, node_name
from multiform.catalog.manager import TaskManager
from multiform.catalog.python_tasks import PythonTask, task_classes

__all__ = [
    "Design",
    "Group",
    "Node",
    "PythonTask",
    "TaskManager",
    "distinct",
    "node_name",
    "same_task",
    "task_classes",
]
