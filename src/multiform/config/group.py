"""A group of tasks that is run and summarised together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from multiform.config.check import check_values
from multiform.config.source import Source, where


@dataclass(kw_only=True)
class GroupConfig:
    """Configuration of a group; `task` lists its members."""

    group: str
    group_alias: str | None = None
    task: str | list[str | dict[str, Any]] = field(default_factory=list)
    include: str | dict[str, Any] | list[Any] | None = None
    aggregate_metric_list: list[dict[str, Any]] | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    _source: Source | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(type(self), vars(self), lambda *path: where(self._source, self.group, *path))
