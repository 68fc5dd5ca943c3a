"""TaskManager: finds and builds tasks with lm-eval's arguments and results."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from multiform.compat.finder import real_folder
from multiform.compat.lm_eval.api.building import current
from multiform.compat.lm_eval.api.group import ConfigurableGroup, Group
from multiform.compat.lm_eval.api.registry import GROUP_REGISTRY, TASK_REGISTRY
from multiform.compat.lm_eval.api.task import ConfigurableTask
from multiform.compat.lm_eval.api.task import Task as AnyTask
from multiform.config import TaskConfig
from multiform.errors import UsageError, shorten
from multiform.tasks import Group as OurGroup
from multiform.tasks import Node, Task
from multiform.tasks import TaskManager as OurManager

Spec = str | Mapping[str, Any] | Task | Group
Item = Task | Group


class TaskDict(TypedDict):
    """All tasks and groups, and the names of each group's members."""

    tasks: dict[str, Task]
    groups: dict[str, Group]
    group_map: dict[str, list[str]]


class TaskManager:
    """Knows the tasks of the installed lm-eval, if it is there, and those of the folders that are named."""

    def __init__(
        self,
        verbosity: str | None = None,
        include_path: str | Path | Sequence[str | Path] | None = None,
        include_defaults: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        given = [include_path] if isinstance(include_path, str | os.PathLike) else list(include_path or ())
        installed = real_folder() if include_defaults else None
        self.folders = [*([installed / "tasks"] if installed else []), *(Path(path) for path in given)]
        self.manager = OurManager(self.folders)
        self.metadata = dict(metadata or {})

    @property
    def all_tasks(self) -> list[str]:
        return sorted({*self.manager.index.entries, *self.all_tags, *TASK_REGISTRY})

    @property
    def all_groups(self) -> list[str]:
        return sorted({*self.manager.index.names("group"), *GROUP_REGISTRY})

    @property
    def all_subtasks(self) -> list[str]:
        return sorted({*self.manager.index.names("task"), *TASK_REGISTRY})

    @property
    def all_tags(self) -> list[str]:
        return sorted(self.manager.index.tags())

    @property
    def task_index(self) -> Mapping[str, Any]:
        return self.manager.index.entries

    def match_tasks(self, task_list: Sequence[str]) -> list[str]:
        """The names that the patterns match, sorted."""
        return sorted({name for pattern in task_list for name in fnmatch.filter(self.all_tasks, pattern)})

    def list_all_tasks(self, list_groups: bool = True, list_tags: bool = True, list_subtasks: bool = True) -> str:
        """All names as text, a line for each."""
        parts = {"Groups": (list_groups, self.all_groups), "Tags": (list_tags, self.all_tags),
                 "Tasks": (list_subtasks, self.all_subtasks)}  # fmt: skip
        return "\n".join(f"{title}:\n" + "\n".join(names) for title, (wanted, names) in parts.items() if wanted)

    def load(self, task_list: Spec | Sequence[Spec]) -> TaskDict:
        """The tasks and groups that are named, described or given."""
        tasks: dict[str, Task] = {}
        groups: dict[str, Group] = {}
        for item in self._items(task_list):
            for group in [item, *item.get_all_groups()] if isinstance(item, Group) else []:
                groups[group.name] = group
            for task in item.get_all_tasks() if isinstance(item, Group) else [item]:
                tasks[task.name] = task
        return {"tasks": tasks, "groups": groups, "group_map": {g.name: g.child_names for g in groups.values()}}

    def load_task_or_group(self, task_list: Spec | Sequence[Spec]) -> dict[Any, Any]:
        """The same as one dict, with the tasks of a group in a dict under it."""
        made: dict[Any, Any] = {}
        for item in self._items(task_list):
            made |= _nested(item)
        return made

    def _items(self, task_list: Spec | Sequence[Spec]) -> list[Item]:
        one = isinstance(task_list, str | Mapping | Task | Group)
        specs: Sequence[Any] = [task_list] if one else list(task_list)  # type: ignore[arg-type]
        return [item for spec in specs for item in self._built(spec)]

    def _built(self, spec: Any) -> list[Item]:
        if isinstance(spec, Task | Group):
            return [spec]
        if isinstance(spec, str):
            return self._named(spec, {})
        if not isinstance(spec, Mapping):
            what = f"expected a task's name, configuration or object, got {shorten(spec)}"
            raise UsageError(what, where="tasks", hint='give e.g. tasks=["arc_easy"]')
        name = spec.get("task")
        # What says where its rows are and what is asked is a task of its own; nothing has to be looked up.
        whole = ("dataset_path" in spec or "custom_dataset" in spec) and "doc_to_target" in spec
        if isinstance(name, str) and not whole and (name in TASK_REGISTRY or name in self.manager.index.entries):
            return self._named(name, {key: value for key, value in spec.items() if key != "task"})
        if "group" in spec:
            raise UsageError("a group cannot be written here", where="tasks", hint="put it into a YAML file")
        return [ConfigurableTask(config=self._described(spec))]

    def _named(self, name: str, changes: Mapping[str, Any]) -> list[Item]:
        if name in TASK_REGISTRY:
            return [_of_class(TASK_REGISTRY[name], name, changes)]
        if name in GROUP_REGISTRY:
            return [item for member in GROUP_REGISTRY[name] for item in self._named(member, changes)]
        more = {"metadata": self.metadata} if self.metadata and not changes else {}
        return [self._item(node, more) for node in self.manager.tree(name, changes)]

    def _item(self, node: Node, more: Mapping[str, Any]) -> Item:
        if not isinstance(node, OurGroup):
            return self._task(node, more)
        made = Group.from_config(node.config)
        made.node = node
        for member in node.members:
            made.add(self._item(member, more))
        return made

    def _task(self, config: TaskConfig, more: Mapping[str, Any]) -> Task:
        if more.get("metadata"):
            config = config.changed(metadata={**config.metadata, **more["metadata"]})
        if config._task_class is not None:
            return Task.from_config(config, dataset_mirror=current().mirror)
        return ConfigurableTask(config=config)

    def _described(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {**spec, "metadata": {**(spec.get("metadata") or {}), **self.metadata, "config_source": "inline"}}


def _of_class(kind: type[AnyTask], name: str, changes: Mapping[str, Any]) -> Task:
    config = TaskConfig(task=name, _task_class=kind, _class_keys={"task": name, **changes})
    return Task.from_config(config, dataset_mirror=current().mirror)


def _nested(item: Item) -> dict[Any, Any]:
    if not isinstance(item, Group):
        return {item.name: item}
    inside: dict[Any, Any] = {}
    for member in item:
        inside |= _nested(member)
    return {ConfigurableGroup.from_group(item): inside}
