"""What an index holds: names, the files that define them, and the files that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from multiform.catalog.python_tasks import TaskClass
from multiform.errors import ConfigError

Kind = Literal["task", "group"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A name that a task file defines."""

    name: str
    kind: Kind
    folder: Path
    #: Below the folder.
    file: str
    tags: tuple[str, ...] = ()
    #: Where it is a class of a Python file: the name of the class, and its line.
    attribute: str | None = None
    line: int = 0

    @property
    def path(self) -> Path:
        return self.folder / self.file

    @property
    def task_class(self) -> TaskClass | None:
        return None if self.attribute is None else TaskClass(self.name, self.attribute, self.path, self.line)


@dataclass(frozen=True)
class Index:
    """All entries by name, and the files that could not be read."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    broken: Mapping[Path, ConfigError] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        return sorted(entry.name for entry in self.entries.values() if entry.kind == kind)

    def tags(self) -> dict[str, list[str]]:
        """The tags, each with the tasks that carry it."""
        return self._tags

    @cached_property
    def _tags(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for entry in self.entries.values():
            for tag in entry.tags:
                found.setdefault(tag, []).append(entry.name)
        return {tag: sorted(found[tag]) for tag in sorted(found)}
