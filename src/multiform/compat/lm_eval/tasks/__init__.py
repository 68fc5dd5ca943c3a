"""Task managers, and what scripts take out of them; `lm_eval.tasks.X` is a file of the task folder in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.compat.lm_eval.tasks.manager import TaskDict, TaskManager
from multiform.forms import Task

__all__ = ["TaskDict", "TaskManager", "get_task_dict", "get_task_name_from_config", "get_task_name_from_object"]


def get_task_dict(
    task_name_list: str | Sequence[str | dict[str, Any] | Task], task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """The tasks by their names, those of a group in a dict under it."""
    manager = task_manager or TaskManager()
    listed = [task_name_list] if isinstance(task_name_list, str) else list(task_name_list)
    return manager.load_task_or_group(listed)


def get_task_name_from_config(task_config: dict[str, str]) -> str:
    """The name of a task, or of its dataset where it has none."""
    name = task_config.get("task")
    parts = (task_config["dataset_path"], task_config.get("dataset_name")) if not name else ()
    return name or "_".join(part for part in parts if part)


def get_task_name_from_object(task_object: Any) -> str:
    """The name of a task object."""
    return str(task_object.config.task) if hasattr(task_object, "config") else type(task_object).__name__
