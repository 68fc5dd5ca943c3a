"""Groups of tasks, as `TaskManager.load` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from multiform.config import GroupConfig
from multiform.tasks import Group as OurGroup
from multiform.tasks import Task


@dataclass(eq=False)
class Group:
    """A group with its tasks and groups; `node` says how its scores are made."""

    name: str
    alias: str | None = None
    aggregate_metric_list: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    _children: dict[str, Task | Group] = field(default_factory=dict, repr=False)
    node: OurGroup | None = field(default=None, repr=False)

    def add(self, item: Task | Group) -> None:
        """Add a task or group."""
        self._children[item.name] = item

    def get(self, name: str) -> Task | Group | None:
        """The member of that name."""
        return self._children.get(name)

    def pop(self, name: str) -> Task | Group | None:
        """Take a member out."""
        return self._children.pop(name, None)

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
        """All tasks below it."""
        found: list[Task] = []
        for item in self:
            if isinstance(item, Task):
                found.append(item)
            elif recursive:
                found += item.get_all_tasks()
        return found

    def get_all_groups(self, recursive: bool = True) -> list[Group]:
        """All groups below it."""
        found: list[Group] = []
        for item in self:
            if isinstance(item, Group):
                found += [item, *(item.get_all_groups() if recursive else [])]
        return found

    @property
    def version(self) -> str:
        return str((self.metadata or {}).get("version", ""))

    @property
    def has_aggregation(self) -> bool:
        return bool(self.aggregate_metric_list)

    def to_dict(self) -> dict[str, Any]:
        """What the group's file says about it."""
        return {
            "group": self.name,
            "group_alias": self.alias,
            "task": self.child_names,
            "aggregate_metric_list": self.aggregate_metric_list,
            "metadata": self.metadata,
        }

    @classmethod
    def from_config(cls, config: GroupConfig | dict[str, Any]) -> Group:
        """The group that a configuration describes, without members yet."""
        made = config if isinstance(config, GroupConfig) else GroupConfig.from_dict(config)[0]
        return cls(
            name=made.group,
            alias=made.group_alias,
            aggregate_metric_list=made.aggregates() or None,
            metadata=made.metadata,
        )


class ConfigurableGroup(Group):
    """A group made of its configuration."""

    def __init__(self, config: GroupConfig | dict[str, Any]) -> None:
        vars(self).update(vars(Group.from_config(config)))

    @classmethod
    def from_group(cls, group: Group) -> ConfigurableGroup:
        """The same group under this class."""
        made = cls.__new__(cls)
        vars(made).update(vars(group))
        return made

    @property
    def group(self) -> str:
        return self.name

    @property
    def group_alias(self) -> str | None:
        return self.alias

    @property
    def group_name(self) -> str:
        return self.name
