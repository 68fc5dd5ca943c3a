"""Groups: GroupConfig, groups with their members, and names that tell apart tasks which several groups override."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from multiform.errors import ConfigError, MultiformError, UsageError, excerpt, quantity
from multiform.paths import display
from multiform.schema import check_keys, check_values
from multiform.tasks.config import TaskConfig
from multiform.tasks.functions import resolve_functions
from multiform.tasks.keys import FewshotConfig, Source, StatedKeys, default_keys, where

#: Keys of a group file that configure the group; all others override keys of its members.
_KEYS = ("group", "group_alias", "task", "subsets", "aggregate_metric_list", "metadata", "tag")
#: How the scores of a group's tasks become one.
AGGREGATIONS = ("mean", "adjusted_harmonic_mean")
_AGGREGATE_KEYS = ("metric", "aggregation", "weight_by_size", "weight_by_member", "filter_list", "higher_is_better")


@dataclass(kw_only=True)
class GroupConfig:
    """Configuration of a group of tasks; `task` lists its members."""

    group: str
    group_alias: str | None = None
    #: Names of tasks, groups or tags, or mappings with a `task` or `group` and the keys to override in it.
    task: str | list[str | dict[str, Any]] = field(default_factory=list)
    #: The subsets of one dataset, for each of which `task` names a task: see `subset_tasks`.
    subsets: list[str] | dict[str, dict[str, Any] | None] | None = None
    #: Scores of the whole group: each entry names a metric, and how it is aggregated.
    aggregate_metric_list: list[dict[str, Any]] | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    tag: str | list[str] | None = None
    _source: Source | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(type(self), vars(self), self.where)
        for index, entry in enumerate(self.aggregates()):
            place = partial(self.where, "aggregate_metric_list", index)
            if "metric" not in entry:
                raise ConfigError("missing key 'metric'", where=place(), hint="name a metric of the tasks")
            if not callable(how := entry.get("aggregation", "mean")) and how not in AGGREGATIONS:
                message = f"aggregation: expected {' or '.join(AGGREGATIONS)} or a function, got {excerpt(how)}"
                raise ConfigError(message, where=place(), hint="write aggregation: mean")
            check_keys("aggregate_metric_list", _AGGREGATE_KEYS, entry, place)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: Source | None = None) -> tuple[GroupConfig, dict[str, Any]]:
        """Build from the data of a file; also returns the keys that override those of the group's members."""
        group_keys = {key: value for key, value in data.items() if key in _KEYS}
        member_keys = {key: value for key, value in data.items() if key not in _KEYS}
        group = cls(**resolve_functions(group_keys), _source=source)
        check_keys("a group or its tasks", [*_KEYS, *default_keys()], member_keys, group.where)
        return group, member_keys

    def aggregates(self) -> list[dict[str, Any]]:
        """The entries of `aggregate_metric_list`, as a list even if the file has a single one without a list.

        Without entries, the score over all subsets of a dataset is that of its documents.
        """
        entries = self.aggregate_metric_list
        if entries is None and self.subsets:
            return [{"metric": "all", "weight_by_size": True}]
        return entries if isinstance(entries, list) else [entries] if entries else []

    def members(self) -> list[str | dict[str, Any]]:
        """The members, as a list even if the file has a single name."""
        return [self.task] if isinstance(self.task, str) else self.task

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self._source, self.group, *path)


def subset_tasks(stated: StatedKeys) -> dict[str, StatedKeys]:
    """What a group with `subsets` states of each of its tasks, by the task's name.

    In every key, ``<subset>`` stands for the subset, and ``<subset words>`` for the subset with blanks in place of
    underscores. A subset may have values of its own, which are named in the same way.

    >>> group = {"group": "m", "task": "m_<subset>", "subsets": ["us_law"], "dataset_name": "<subset>"}
    >>> subset_tasks(StatedKeys(group))["m_us_law"].data
    {'task': 'm_us_law', 'dataset_name': 'us_law'}
    >>> subsets = {"de": {"yes": "ja"}, "fr": {"yes": "oui"}}
    >>> subset_tasks(StatedKeys({"task": "m_<subset>", "subsets": subsets, "doc_to_choice": ["<yes>"]}))["m_fr"].data
    {'task': 'm_fr', 'doc_to_choice': ['oui']}
    """
    data, source = stated.data, stated.source
    subsets, name = data["subsets"], data.get("task")
    if not isinstance(name, str) or "<subset>" not in name:
        message = f"expected a name with <subset> in it, got {excerpt(name)}"
        hint = "write e.g. task: mmlu_<subset>"
        raise ConfigError(message, where=where(source, data.get("group"), "task"), hint=hint)
    table = subsets if isinstance(subsets, dict) else dict.fromkeys(subsets)
    keys = {key: value for key, value in data.items() if key not in _KEYS or key in ("task", "metadata", "tag")}
    first = next(iter(table.values()), None) or {}
    tasks = {}
    for subset, values in table.items():
        if (values or {}).keys() != first.keys():
            message = f"'{subset}' has other values than the first subset: {', '.join(values or ()) or 'none'}"
            hint = f"give each subset the same: {', '.join(first) or 'none'}"
            raise ConfigError(message, where=where(source, data.get("group"), "subsets", str(subset)), hint=hint)
        texts = {"subset": str(subset), "subset words": str(subset).replace("_", " "), **(values or {})}
        task = {key: _fill_in(value, texts) for key, value in keys.items()}
        task["task"] = re.sub(r"\W+", "_", task["task"])
        tasks[task["task"]] = StatedKeys(task, source)
    return tasks


def _fill_in(value: Any, texts: Mapping[str, Any]) -> Any:
    """The value with the texts of a subset; a value that is nothing but a name keeps the type of what it names."""
    if isinstance(value, str):
        if value[:1] == "<" and value[1:-1] in texts and value[-1:] == ">":
            return texts[value[1:-1]]
        for name, text in texts.items():
            value = value.replace(f"<{name}>", str(text))
        return value
    if isinstance(value, list):
        return [_fill_in(item, texts) for item in value]
    if isinstance(value, dict):
        return {key: _fill_in(item, texts) for key, item in value.items()}
    return value


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
        return f"<Group {self.name}: {quantity(len(names), 'member')} ({shown})>"

    def tasks(self) -> Iterator[TaskConfig]:
        """All tasks below the group, each once."""
        seen = set()
        for member in self.members:
            for task in member.tasks():
                if task.form_name not in seen:
                    seen.add(task.form_name)
                    yield task


Node = TaskConfig | Group


def node_name(node: Node) -> str:
    """The name of a task or group that results are keyed by."""
    return node.name if isinstance(node, Group) else node.form_name


def build_group(
    file: StatedKeys,
    resolve: Resolve,
    overrides: Mapping[str, Any],
    chain: tuple[str, ...] = (),
    outer: str = "",
    *,
    extend: Callable[[StatedKeys], StatedKeys] = lambda stated: stated,
) -> Group:
    """Build the group of a file. `overrides` replace keys of the group's members, unless a member sets them itself.

    `chain` has the names of the groups around it, to find cycles, and `outer` is the path of the group that defines
    it inline. `extend` adds to what is stated of each task of a dataset with subsets.
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
        tasks = [extend(task) for task in subset_tasks(file).values()]
        members = [TaskConfig.from_stated(task.with_keys(**overrides)) for task in tasks]
        return Group(config, tuple(members), label, outer)
    for index, member in enumerate(config.members()):
        try:
            inside = (*chain, config.group), _inner_name(outer, config.group)
            members += _member(member, index, file, resolve, {**handed, **overrides}, *inside)
        except UsageError as error:
            named = member if isinstance(member, str) else member.get("task", member.get("group"))
            message = f"member {excerpt(named)}: {error.what}"
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
        return resolve(_member_name(member, overrides), overrides, chain)
    assert file.source is not None
    source = file.source.under("task", index)
    changes = {key: value for key, value in member.items() if key not in ("task", "group")}
    if "group" not in member:
        check_keys("a task", default_keys(), changes, lambda *path: str(source.at(*path)))
    if "group" in member and "task" in member:
        inline = StatedKeys({**overrides, **member}, source)
        selection = {key: value for key, value in overrides.items() if key == "_formats_selection"}
        return [build_group(inline, resolve, selection, chain, outer)]
    name = member.get("task", member.get("group"))
    if not isinstance(name, str):
        where = str(source.at())
        raise ConfigError("a member needs a 'task' or a 'group'", where=where, hint="write e.g. - task: my_task")
    try:
        return resolve(_member_name(name, overrides), {**overrides, **changes}, chain)
    except MultiformError:
        if "dataset_path" not in {**overrides, **changes} and "custom_dataset" not in changes:
            raise  # neither a known task nor one that is defined here
    return [TaskConfig.from_dict({**overrides, **member, "task": _inner_name(outer, name)}, source=source)]


def _member_name(name: str, overrides: Mapping[str, Any]) -> str:
    """The name of a member, without its own format if one was selected at run time."""
    return name.partition("@")[0] if overrides.get("_formats_selection") else name


def distinct(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, with members renamed to ``group::member`` if a different task or group has the same name.

    Tasks and groups outside of groups keep their names, and equal tasks stay one task. Two different tasks of one
    name within a group are an error.
    """
    clashing = _clashing(nodes)
    renamed = [_rename(node, clashing) for node in nodes] if clashing else list(nodes)
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


def _rename(node: Node, clashing: set[str], parent: str = "") -> Node:
    """The node, and all nodes in it, with the name of its group before its own if that is needed."""
    is_clashing = bool(parent) and node_name(node) in clashing
    if isinstance(node, TaskConfig):
        return node.replace(_qualified_name=f"{parent}::{node.form_name}") if is_clashing else node
    group = replace(node, outer=parent) if is_clashing else node
    return replace(group, members=tuple(_rename(member, clashing, group.path) for member in node.members))


def _refusal(nodes: Sequence[Node], name: str) -> UsageError | ConfigError:
    """The error for two different tasks or groups of the same name."""
    for group in _walk(nodes):
        if isinstance(group, Group) and name in _clashing(group.members):
            message = f"the group lists '{name.rpartition('::')[2]}' more than once, with different settings"
            hint = "put each into a group of its own, with 'group:', 'task:' and the settings"
            return ConfigError(message, where=group.config.where("task"), hint=hint)
    message = f"two different tasks or groups are called '{name}'"
    return UsageError(message, where="--tasks", hint="rename one of them, or run them one by one")


def tasks_by_name(nodes: Iterable[Node]) -> dict[str, TaskConfig]:
    """The tasks of the nodes by the names of their forms; two files that define one form are an error."""
    configs: dict[str, TaskConfig] = {}
    for config in (config for node in nodes for config in node.tasks()):
        first = configs.setdefault(config.form_name, config)
        files = [source.file for member in (first, config) if (source := member.stated.source) is not None]
        if len(set(files)) > 1:
            message = f"two files define '{config.form_name}': {' and '.join(map(display, files))}"
            hint = "rename one of the two tasks, or run them one by one"
            raise ConfigError(message, where=config.where("task"), hint=hint)
    return configs
