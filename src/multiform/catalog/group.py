"""Groups: trees of tasks, built from group files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multiform.config import GroupConfig, TaskConfig, YamlFile
from multiform.config.check import check_keys
from multiform.config.group import subset_tasks
from multiform.config.task import task_keys
from multiform.errors import ConfigError, MultiformError, UsageError, shorten

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
    file: YamlFile, resolve: Resolve, overrides: Mapping[str, Any], chain: tuple[str, ...] = (), outer: str = ""
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
        tasks = subset_tasks(file.data, file.source).values()
        members = [TaskConfig.from_dict({**keys, **overrides}, source=file.source) for keys in tasks]
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
    file: YamlFile,
    resolve: Resolve,
    overrides: dict[str, Any],
    chain: tuple[str, ...],
    outer: str,
) -> list[Node]:
    if isinstance(member, str):
        return resolve(_selected(member, overrides), overrides, chain)
    source = file.source.under("task", index)
    changes = {key: value for key, value in member.items() if key not in ("task", "group")}
    if "group" not in member:
        check_keys("a task", task_keys(), changes, lambda *path: str(source.at(*path)))
    if "group" in member and "task" in member:
        inline = YamlFile({**overrides, **member}, source)
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
