"""StatedKeys: what is stated of a task or group, and the file and line of every key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a file, lines counted from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{display(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Source:
    """The positions of the keys of one configuration, which may come from several files."""

    file: Path
    positions: Mapping[KeyPath, FilePosition] = field(default_factory=dict)
    #: Warnings about the files, such as a key that is given twice.
    notes: tuple[ConfigError, ...] = ()

    def at(self, *path: str | int) -> FilePosition:
        """The position of a key, given as a path, or of the innermost key around it that is known."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return FilePosition(self.file, 1)

    def under(self, *path: str | int) -> Source:
        """The source of a part of the configuration, such as one item of a list."""
        inner = {key[len(path) :]: position for key, position in self.positions.items() if key[: len(path)] == path}
        return Source(self.file, inner, self.notes)

    def over(self, sources: Iterable[Source]) -> Source:
        """This source merged over others, the later ones first: a top-level key hides the same key below it."""
        merged: dict[KeyPath, FilePosition] = {}
        notes: dict[str, ConfigError] = {}
        for source in [*sources, self]:
            notes |= {str(note): note for note in source.notes}
            names = {key[0] for key in source.positions if key}
            merged = {key: p for key, p in merged.items() if key and key[0] not in names}
            merged |= {key: p for key, p in source.positions.items() if key}
        if () in self.positions:
            merged[()] = self.positions[()]
        return Source(self.file, merged, tuple(notes.values()))


@dataclass(frozen=True, slots=True)
class StatedKeys:
    """What the file, the class or the call that defines a task or group states: the keys that it sets, and where.

    Loaders, groups and dialects pass it on, and `TaskConfig.from_stated` resolves it. A key that is not set is not
    in `data`, even if a configuration has a default for it.
    """

    data: dict[str, Any]
    source: Source | None = None
    #: The class of the task, if it is not the one of its output type.
    task_class: type | None = None
    #: All keys of the file, for a task class that takes more keys than there are fields.
    class_keys: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default if it is not set."""
        return self.data.get(key, default)

    def with_keys(self, **changes: Any) -> StatedKeys:
        """The same with other values of some keys."""
        return replace(self, data={**self.data, **changes})

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self.source, self.data.get("task", self.data.get("group")), *path)


def display(path: Path) -> str:
    """The path for a message: relative to the working directory if it is below that."""
    text, working_folder = str(path), os.getcwd()
    return "." if text == working_folder else text.removeprefix(os.path.join(working_folder, ""))


def where(source: Source | None, task: str | None, *path: str | int) -> str | None:
    """The place of a key as messages show it: ``file.yaml:12: key``, or ``task: key`` without a file."""
    key = ".".join(map(str, path))
    start = str(source.at(*path)) if source else task
    return f"{start}: {key}" if start and key else start or key or None
