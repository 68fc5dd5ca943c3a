"""Groups of tasks, and names that tell apart tasks which several groups override."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiform.errors import ConfigError, MultiformError, UsageError, shorten
from multiform.tasks.check import check_keys
from multiform.tasks.config import TaskConfig, task_keys
from multiform.tasks.group_config import GroupConfig, subset_tasks
from multiform.tasks.keys import FewshotConfig, default_keys
from multiform.tasks.source import StatedKeys

#: Returns the nodes of a name with overrides of their keys, given the groups around them; raises for unknown names.
Resolve = Callable[[str, Mapping[str, Any], tuple[str, ...]], list["Node"]]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A group with its members; `label` is the format that was selected for it, if any."""

    config: GroupConfig
    members: tuple[Node, ...]
    label: str | None = None
    #: The path of the group that defines this one inline, or that makes its name distinct.
    outer: str = ""

    @property
    def path(self) -> str:
        """The name of the group as in lm-eval: ``outer::inner`` for a group that is defined inside another."""
        return _inner_name(self.outer, self.config.group)

    @property
    def name(self) -> str:
        """The name that results are keyed by: the path, and the selected format."""
        return f"{self.path}@{self.label}" if self.label else self.path

    def __repr__(self) -> str:
        names = [node_name(member) for member in self.members]
        shown = ", ".join(names if len(names) <= 4 else [*names[:3], "..."])
        return f"<Group {self.name}: {len(names)} member{'' if len(names) == 1 else 's'} ({shown})>"

    def tasks(self) -> Iterator[TaskConfig]:
        """All tasks below the group, each once."""
        seen = set()
        for member in self.members:
            for task in member.tasks() if isinstance(member, Group) else [member]:
                if task.form_name not in seen:
                    seen.add(task.form_name)
                    yield task


Node = TaskConfig | Group


def node_name(node: Node) -> str:
    """The name of a task or group that results are keyed by."""
    return node.name if isinstance(node, Group) else node.form_name


def build_group(
    file: StatedKeys, resolve: Resolve, overrides: Mapping[str, Any], chain: tuple[str, ...] = (), outer: str = ""
) -> Group:
    """Build the group of a file. `overrides` replace keys of the group's members, unless a member sets them itself.

    `chain` has the names of the groups around it, to find cycles, and `outer` is the path of the group that defines
    it inline.
    """
    config, handed = GroupConfig.from_dict(file.data, source=file.source)
    if config.group in chain:
        loop = " -> ".join((*chain[chain.index(config.group) :], config.group))
        raise ConfigError(f"the group contains itself: {loop}", where=config.where("group"), hint="remove one of them")
    label = overrides.get("_formats_selection")
    if not config.members():
        raise ConfigError("the group has no members", where=config.where("task"), hint="list tasks under 'task:'")
    members: list[Node] = []
    if config.subsets:
        members = [TaskConfig.from_stated(task.changed(**overrides)) for task in subset_tasks(file).values()]
        return Group(config, tuple(members), label, outer)
    for index, member in enumerate(config.members()):
        try:
            inside = (*chain, config.group), _inner_name(outer, config.group)
            members += _member(member, index, file, resolve, {**handed, **overrides}, *inside)
        except UsageError as error:
            named = member if isinstance(member, str) else member.get("task", member.get("group"))
            message = f"member {shorten(named)}: {error.what}"
            raise ConfigError(message, where=config.where("task", index), hint=error.hint) from error
    return Group(config, tuple(members), label, outer)


def _inner_name(outer: str, name: str) -> str:
    return f"{outer}::{name}" if outer else name


def _member(
    member: str | dict[str, Any],
    index: int,
    file: StatedKeys,
    resolve: Resolve,
    overrides: dict[str, Any],
    chain: tuple[str, ...],
    outer: str,
) -> list[Node]:
    if isinstance(member, str):
        return resolve(_selected(member, overrides), overrides, chain)
    assert file.source is not None
    source = file.source.under("task", index)
    changes = {key: value for key, value in member.items() if key not in ("task", "group")}
    if "group" not in member:
        check_keys("a task", task_keys(), changes, lambda *path: str(source.at(*path)))
    if "group" in member and "task" in member:
        inline = StatedKeys({**overrides, **member}, source)
        return [build_group(inline, resolve, _selection(overrides), chain, outer)]
    name = member.get("task", member.get("group"))
    if not isinstance(name, str):
        where = str(source.at())
        raise ConfigError("a member needs a 'task' or a 'group'", where=where, hint="write e.g. - task: my_task")
    try:
        return resolve(_selected(name, overrides), {**overrides, **changes}, chain)
    except MultiformError:
        if "dataset_path" not in {**overrides, **changes} and "custom_dataset" not in changes:
            raise  # neither a known task nor one that is defined here
    return [TaskConfig.from_dict({**overrides, **member, "task": _inner_name(outer, name)}, source=source)]


def _selected(name: str, overrides: Mapping[str, Any]) -> str:
    """The name of a member, without its own format where one was selected at run time."""
    return name.partition("@")[0] if overrides.get("_formats_selection") else name


def _selection(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key == "_formats_selection"}


def distinct(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, with members renamed to ``group::member`` where a different task or group has the same name.

    Tasks and groups outside of groups keep their names, and equal tasks stay one task. Two different tasks of one
    name within a group are an error.
    """
    clashing = _clashing(nodes)
    renamed = [_renamed(node, clashing) for node in nodes] if clashing else list(nodes)
    for name in sorted(_clashing(renamed)):
        raise _refusal(renamed, name)
    return renamed


def same_task(first: TaskConfig, second: TaskConfig) -> bool:
    """Whether two configurations are equal, apart from the files that define them."""
    classes = [(config.stated.task_class, config.stated.class_keys) for config in (first, second)]
    return classes[0] == classes[1] and all(_value(first, key) == _value(second, key) for key in default_keys())


def _value(config: TaskConfig, name: str) -> Any:
    """The value of a field for comparison; functions are compared as the task states them."""
    value, stated = getattr(config, name), config.stated.get(name)
    if isinstance(value, FewshotConfig):
        return stated, {key: item for key, item in vars(value).items() if not callable(item)}
    return stated if callable(value) else value


def _same(first: Node, second: Node) -> bool:
    if isinstance(first, Group) and isinstance(second, Group):
        alike = first.config == second.config and len(first.members) == len(second.members)
        return alike and all(map(_same, first.members, second.members))
    return isinstance(first, TaskConfig) and isinstance(second, TaskConfig) and same_task(first, second)


def _walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Every task and group of the trees."""
    for node in nodes:
        yield node
        if isinstance(node, Group):
            yield from _walk(node.members)


def _clashing(nodes: Sequence[Node]) -> set[str]:
    """The names that two different tasks or groups have."""
    first: dict[str, Node] = {}
    return {node_name(node) for node in _walk(nodes) if not _same(first.setdefault(node_name(node), node), node)}


def _renamed(node: Node, clashing: set[str], parent: str = "") -> Node:
    """The node, and all nodes in it, with the name of its group before its own where that is needed."""
    is_clashing = bool(parent) and node_name(node) in clashing
    if isinstance(node, TaskConfig):
        return _called(node, f"{parent}::{node.form_name}") if is_clashing else node
    group = replace(node, outer=parent) if is_clashing else node
    return replace(group, members=tuple(_renamed(member, clashing, group.path) for member in node.members))


def _called(config: TaskConfig, name: str) -> TaskConfig:
    """A copy of the configuration whose results have this name."""
    return config.changed(_qualified_name=name)


def _refusal(nodes: Sequence[Node], name: str) -> UsageError | ConfigError:
    """The error for two different tasks or groups of the same name."""
    for group in _walk(nodes):
        if isinstance(group, Group) and name in _clashing(group.members):
            message = f"the group lists '{name.rpartition('::')[2]}' more than once, with different settings"
            hint = "put each into a group of its own, with 'group:', 'task:' and the settings"
            return ConfigError(message, where=group.config.where("task"), hint=hint)
    message = f"two different tasks or groups are called '{name}'"
    return UsageError(message, where="--tasks", hint="rename one of them, or run them one by one")
