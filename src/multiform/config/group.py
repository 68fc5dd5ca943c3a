"""GroupConfig: a group of tasks that are run together, with scores over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multiform.config.check import check_keys, check_values
from multiform.config.functions import resolve_functions
from multiform.config.source import Source, where
from multiform.config.task import task_keys
from multiform.errors import ConfigError, shorten

#: Keys of a group file that configure the group; all others override keys of its members.
_KEYS = ("group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag")
_AGGREGATE_KEYS = ("metric", "aggregation", "weight_by_size", "filter_list", "higher_is_better")


@dataclass(kw_only=True)
class GroupConfig:
    """Configuration of a group of tasks; `task` lists its members."""

    group: str
    group_alias: str | None = None
    #: Names of tasks, groups or tags, or mappings with a `task` or `group` and the keys to override in it.
    task: str | list[str | dict[str, Any]] = field(default_factory=list)
    #: Scores of the whole group: each entry names a metric, and how it is aggregated.
    aggregate_metric_list: list[dict[str, Any]] | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    tag: str | list[str] | None = None
    _source: Source | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(type(self), vars(self), self.where)
        for index, entry in enumerate(self.aggregates()):
            if "metric" not in entry:
                place = self.where("aggregate_metric_list", index)
                raise ConfigError("missing key 'metric'", where=place, hint="name a metric of the tasks")
            if entry.get("aggregation", "mean") != "mean" and not callable(entry["aggregation"]):
                message = f"aggregation: expected 'mean' or a function, got {shorten(entry['aggregation'])}"
                place = self.where("aggregate_metric_list", index)
                raise ConfigError(message, where=place, hint="write aggregation: mean")
            check_keys(
                "aggregate_metric_list",
                _AGGREGATE_KEYS,
                entry,
                lambda *path, i=index: self.where("aggregate_metric_list", i, *path),
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: Source | None = None) -> tuple[GroupConfig, dict[str, Any]]:
        """Build from the data of a file; also returns the keys that override those of the group's members."""
        group_keys = {key: value for key, value in data.items() if key in _KEYS}
        member_keys = {key: value for key, value in data.items() if key not in _KEYS}
        group = cls(**resolve_functions(group_keys), _source=source)
        check_keys("a group or its tasks", [*_KEYS, *task_keys()], member_keys, group.where)
        return group, member_keys

    def aggregates(self) -> list[dict[str, Any]]:
        """The entries of `aggregate_metric_list`, as a list even where the file has a single one without a list."""
        entries = self.aggregate_metric_list
        return entries if isinstance(entries, list) else [entries] if entries else []

    def members(self) -> list[str | dict[str, Any]]:
        """The members, as a list even where the file has a single name."""
        return [self.task] if isinstance(self.task, str) else self.task

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self._source, self.group, *path)
