"""TaskManager and Group: find and build tasks with lm-eval's arguments."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from multiform.compat.lm_eval.config import build_context, convert_errors
from multiform.compat.lm_eval.registry import TASK_REGISTRY
from multiform.compat.lm_eval.task import ConfigurableTask
from multiform.errors import UsageError, excerpt
from multiform.forms import Task
from multiform.imports import lm_eval_finder as finder
from multiform.tasks.config import TaskConfig
from multiform.tasks.group import Group as OurGroup
from multiform.tasks.group import GroupConfig, Node, distinct, node_name
from multiform.tasks.keys import StatedKeys
from multiform.tasks.manager import TaskManager as OurManager


class Group:
    """A group with its tasks and groups, each under its name; lm-eval also calls it `ConfigurableGroup`."""

    def __init__(self, config: GroupConfig | Mapping[str, Any]) -> None:
        self._config = config if isinstance(config, GroupConfig) else GroupConfig.from_dict(config)[0]
        self._children: dict[str, Task | Group] = {}

    @property
    def name(self) -> str:
        return self._config.group

    group = group_name = name

    @property
    def alias(self) -> str | None:
        return self._config.group_alias

    group_alias = alias

    @property
    def metadata(self) -> dict[str, Any]:
        return self._config.metadata or {}

    @property
    def version(self) -> str:
        return str(self.metadata.get("version", "N/A"))

    @property
    def has_aggregation(self) -> bool:
        return bool(self._config.aggregates())

    @property
    def config(self) -> dict[str, Any]:
        """The keys of the group's file that are set."""
        return {key: value for key, value in vars(self._config).items() if value and not key.startswith("_")}

    def add(self, item: Task | Group) -> None:
        """Add a task or group; the group must not have another of the same name."""
        name = child_name(item)
        if self._children.setdefault(name, item) is not item:
            hint = "rename one of them"
            with convert_errors(ValueError):
                raise UsageError(f"there is another '{name}' in the group", where=self.name, hint=hint)

    def get(self, name: str) -> Task | Group | None:
        """The member of that name."""
        return self._children.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[Task | Group]:
        return iter(self._children.values())

    def __len__(self) -> int:
        return len(self._children)

    @property
    def child_names(self) -> list[str]:
        return list(self._children)

    def get_all_tasks(self, recursive: bool = True) -> list[Task]:
        """All tasks below it, or its own."""
        tasks: list[Task] = []
        for item in self:
            if isinstance(item, Task):
                tasks.append(item)
            elif recursive:
                tasks += item.get_all_tasks()
        return tasks

    def get_all_groups(self, recursive: bool = True) -> list[Group]:
        """All groups below it, or its own."""
        groups = [item for item in self if isinstance(item, Group)]
        return [group for item in groups for group in (item, *(item.get_all_groups() if recursive else ()))]

    def as_node(self) -> OurGroup:
        """The group as Multiform scores it, with the configurations of the tasks that are in it now."""
        aggregates = self._config.aggregates()
        config = replace(self._config, task=[*self.child_names], subsets=None, aggregate_metric_list=aggregates)
        return OurGroup(config, tuple(item.as_node() if isinstance(item, Group) else item.config for item in self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, {len(self)} children: {', '.join(self.child_names)})"


ConfigurableGroup = Group


def child_name(item: Task | Group) -> str:
    """The name of a member: a task may have one that is not that of its configuration."""
    return str(item.task_name if hasattr(item, "task_name") else item.name)


Item = Task | Group
Spec = str | Mapping[str, Any] | Item


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
        self.include_path = include_path
        self.metadata = dict(metadata or {})
        paths = [include_path] if isinstance(include_path, str | os.PathLike) else list(include_path or ())
        installed = finder.real_folder() if include_defaults else None
        self.folders = [*([installed / "tasks"] if installed else []), *(Path(path) for path in paths)]
        with convert_errors(ValueError):
            self.manager = OurManager(self.folders, library=include_defaults)

    @property
    def all_tasks(self) -> list[str]:
        return sorted({*self.manager.index.entries, *self.all_tags, *TASK_REGISTRY})

    @property
    def all_groups(self) -> list[str]:
        return sorted(self.manager.index.names("group"))

    @property
    def all_subtasks(self) -> list[str]:
        return sorted({*self.manager.index.names("task"), *TASK_REGISTRY})

    @property
    def all_tags(self) -> list[str]:
        return sorted(self.manager.index.tags)

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
                _add(groups, group.name, group)
            for task in item.get_all_tasks() if isinstance(item, Group) else [item]:
                _add(tasks, child_name(task), task)
        return {"tasks": tasks, "groups": groups, "group_map": {g.name: g.child_names for g in groups.values()}}

    def load_task_or_group(self, task_list: Spec | Sequence[Spec]) -> dict[Any, Any]:
        """The same as one dict, with the tasks of a group in a dict under it."""
        nested: dict[Any, Any] = {}
        for item in self._items(task_list):
            nested |= _nested_dict(item)
        return nested

    def _items(self, task_list: Spec | Sequence[Spec]) -> list[Item]:
        """The tasks and groups, those that are named or described with distinct names."""
        single = isinstance(task_list, str | Mapping | Task | Group)
        specs: Sequence[Any] = [task_list] if single else list(task_list)  # type: ignore[arg-type]
        with convert_errors(KeyError):
            items = [item for spec in specs for item in self._resolve(spec)]
        with convert_errors(ValueError):
            renamed = iter(distinct([item for item in items if isinstance(item, TaskConfig | OurGroup)]))
            built: dict[str, Item] = {}
            return [
                self._build(next(renamed), built) if isinstance(item, TaskConfig | OurGroup) else item for item in items
            ]

    def _resolve(self, spec: Any) -> list[Node | Item]:
        """What a name, a configuration or an object stands for."""
        if isinstance(spec, Task | Group):
            return [spec]
        if isinstance(spec, str):
            return self._resolve_name(spec, {})
        if not isinstance(spec, Mapping):
            with convert_errors(TypeError):
                message = f"expected a task's name, configuration or object, got {excerpt(spec)}"
                raise UsageError(message, where="tasks", hint='give e.g. tasks=["arc_easy"]')
        key = "group" if "group" in spec and "class" not in spec else "task"
        name = spec.get(key)
        if not isinstance(name, str):
            with convert_errors(ValueError):
                message = f"a configuration needs a 'task' or a 'group', got {excerpt(dict(spec))}"
                raise UsageError(message, where="tasks", hint="name the task")
        if key == "group" and spec.get("task") is not None:
            with convert_errors(ValueError):
                return [self.manager.described_group(spec)]
        # What says where its rows are and what is asked is a task of its own; nothing has to be looked up.
        whole = key == "task" and ("dataset_path" in spec or "custom_dataset" in spec) and "doc_to_target" in spec
        if not whole and (name in TASK_REGISTRY or name in self.manager.index.entries):
            return self._resolve_name(name, {other: value for other, value in spec.items() if other != key})
        with convert_errors(ValueError):
            metadata = {**(spec.get("metadata") or {}), **self.metadata, "config_source": "inline"}
            return [ConfigurableTask(config={**spec, "metadata": metadata})]

    def _resolve_name(self, name: str, changes: Mapping[str, Any]) -> list[Node | Item]:
        if name in TASK_REGISTRY:
            stated = StatedKeys({"task": name}, task_class=TASK_REGISTRY[name], class_keys={"task": name, **changes})
            return [Task.from_config(TaskConfig.from_stated(stated), dataset_mirror=build_context().mirror)]
        return list(self.manager.nodes(name, changes))

    def _build(self, node: Node, built: dict[str, Item]) -> Item:
        """The task or group of a node; nodes of one name, which are equal, are one object."""
        name = node_name(node)
        if name not in built:
            built[name] = self._group(node, built) if isinstance(node, OurGroup) else self._task(node)
        return built[name]

    def _group(self, node: OurGroup, built: dict[str, Item]) -> Group:
        config = replace(node.config, group=node.name, metadata={**(node.config.metadata or {}), **self.metadata})
        group = Group(config)
        for member in dict.fromkeys(map(node_name, node.members)):
            group.add(self._build(next(child for child in node.members if node_name(child) == member), built))
        return group

    def _task(self, config: TaskConfig) -> Task:
        metadata = {**config.metadata, **self.metadata}
        if config.stated.task_class is not None:
            keys = config.stated.class_keys
            class_keys = {**keys, "metadata": {**(keys.get("metadata") or {}), **self.metadata}}
            stated = replace(config.stated.with_keys(metadata=metadata), class_keys=class_keys)
            return Task.from_config(TaskConfig.from_stated(stated), dataset_mirror=build_context().mirror)
        return ConfigurableTask(config=config.replace(metadata=metadata) if self.metadata else config)


def _add(items: dict[str, Any], name: str, item: Item) -> None:
    """Put a task or group under its name; two different ones cannot both have it."""
    if items.setdefault(name, item) is not item:
        with convert_errors(ValueError):
            hint = "rename one of them, or run them one by one"
            raise UsageError(f"Duplicate task '{name}': two different ones have this name", where="tasks", hint=hint)


def _nested_dict(item: Item) -> dict[Any, Any]:
    if not isinstance(item, Group):
        return {item.name: item}
    inside: dict[Any, Any] = {}
    for member in item:
        inside |= _nested_dict(member)
    return {item: inside}


def get_task_dict(
    task_name_list: str | Sequence[str | dict[str, Any] | Task], task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """The tasks by their names, those of a group in a dict under it."""
    return (task_manager or TaskManager()).load_task_or_group(task_name_list)
