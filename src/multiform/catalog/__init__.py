"""The catalog: finding tasks and groups in YAML files and Python classes."""

from multiform.catalog.base_task import BaseTask, task_classes
from multiform.catalog.design import Design
from multiform.catalog.distinct import distinct, same_task
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
    "distinct",
    "node_name",
    "same_task",
    "task_classes",
]
