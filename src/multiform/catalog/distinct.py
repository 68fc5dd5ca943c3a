"""Distinct names for tasks that several groups override differently: ``first::task`` and ``second::task``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from multiform.catalog.group import Group, Node, node_name
from multiform.config import FewshotConfig, TaskConfig
from multiform.errors import ConfigError, UsageError


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
    names = [field.name for field in fields(TaskConfig) if field.init and field.name != "_source"]
    return all(_value(first, name) == _value(second, name) for name in names)


def _value(config: TaskConfig, name: str) -> Any:
    """The value of a field for comparison; functions are compared as the task states them."""
    value, stated = getattr(config, name), config._given.get(name)
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
