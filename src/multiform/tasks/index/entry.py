"""The parts of an index: the names that each task file defines, as read from it and as they are looked up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from multiform.errors import ConfigError
from multiform.tasks.index.stamps import Stamp

if TYPE_CHECKING:
    from multiform.tasks.python_tasks import TaskClass

Kind = Literal["task", "group"]
#: The keys of a task's metadata that are listed with it.
ABOUT = ("title", "kind", "rows", "language", "licence")


@dataclass(frozen=True, slots=True)
class Entry:
    """A task or group by its name, with the file that defines it."""

    name: str
    kind: Kind
    folder: Path
    #: Relative to the folder.
    file: str
    tags: tuple[str, ...] = ()
    #: Of a task that is a class in a Python file: the name of the class, and its line.
    attribute: str | None = None
    line: int = 0
    #: The group with `subsets` that defines the task.
    family: str | None = None
    #: What the metadata says of the task, see `ABOUT`.
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self.file

    @property
    def task_class(self) -> TaskClass | None:
        """The class of a Python task, not yet imported; None for a task in YAML."""
        from multiform.tasks.python_tasks import TaskClass

        return None if self.attribute is None else TaskClass(self.name, self.attribute, self.path, self.line)


@dataclass(frozen=True)
class Index:
    """All entries by name, and the files that could not be read."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    broken: Mapping[Path, ConfigError] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        """The names of all tasks, or of all groups, in order."""
        return sorted(entry.name for entry in self.entries.values() if entry.kind == kind)

    def tags(self) -> dict[str, list[str]]:
        """The tags, each with the tasks that carry it."""
        return self._tags

    @cached_property
    def _tags(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for entry in self.entries.values():
            for tag in entry.tags:
                names.setdefault(tag, []).append(entry.name)
        return {tag: sorted(names[tag]) for tag in sorted(names)}


class Name(NamedTuple):
    """A name that a file defines: a task or group of YAML, or a class at a line of a Python file."""

    name: str
    kind: Kind
    tags: Sequence[str] = ()
    attribute: str | None = None
    line: int = 0
    family: str | None = None
    about: Mapping[str, Any] = {}


class Fault(NamedTuple):
    """The parts of the error that a file raises when it is read, with absolute paths."""

    what: str
    where: str | None
    hint: str | None


class Record(NamedTuple):
    """What a file with this stamp defines; `included` has all files that it includes, also indirectly."""

    stamp: Stamp
    names: Sequence[Name] = ()
    included: Sequence[str] = ()
    fault: Fault | None = None


def entry_of(name: Name, folder: Path, file: str) -> Entry:
    """The entry of a name in a file of a folder."""
    return Entry(
        name.name, name.kind, folder, file, tuple(name.tags), name.attribute, name.line, name.family, name.about
    )


def error_of(fault: Fault) -> ConfigError:
    """The error of a file, with paths relative to the working directory where they are below it."""
    working_folder = os.getcwd() + os.sep
    where, hint = (text and text.replace(working_folder, "") for text in (fault.where, fault.hint))
    return ConfigError(fault.what, where=where, hint=hint)
