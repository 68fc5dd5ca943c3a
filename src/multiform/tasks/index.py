"""Which tasks, groups and tags the task folders define."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from multiform.config import YamlFile, read_yaml
from multiform.errors import ConfigError, shorten
from multiform.tasks.python import TaskClass, task_classes_in

logger = logging.getLogger("multiform")

LIBRARY = Path(__file__).parent / "library"
_IGNORED = ("__pycache__", ".ipynb_checkpoints")


@dataclass(frozen=True, slots=True)
class Entry:
    """A name that a task file defines."""

    name: str
    kind: Literal["task", "group"]
    path: Path
    tags: tuple[str, ...] = ()
    task_class: TaskClass | None = None


@dataclass(slots=True)
class Index:
    """All entries by name, and the files that could not be read."""

    entries: dict[str, Entry] = field(default_factory=dict)
    broken: dict[Path, ConfigError] = field(default_factory=dict)

    def names(self, kind: str) -> list[str]:
        return sorted(entry.name for entry in self.entries.values() if entry.kind == kind)

    def tags(self) -> dict[str, list[str]]:
        """The tags, each with the tasks that carry it."""
        found: dict[str, list[str]] = {}
        for entry in self.entries.values():
            for tag in entry.tags:
                found.setdefault(tag, []).append(entry.name)
        return {tag: sorted(found[tag]) for tag in sorted(found)}


def build_index(folders: Iterable[Path]) -> Index:
    """Read the task files below the folders; a later folder's task replaces one of the same name."""
    index = Index()
    for folder in folders:
        here: dict[str, Entry] = {}
        for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.py")]):
            if any(part in _IGNORED for part in path.parts) or not path.is_file():
                continue
            try:
                entries = _python_entries(path) if path.suffix == ".py" else _yaml_entries(path)
            except ConfigError as error:
                index.broken[path] = error
                continue
            for entry in entries:
                if entry.name in here:
                    logger.warning(
                        "task '%s' is defined twice: %s is used, %s is not", entry.name, here[entry.name].path, path
                    )
                here.setdefault(entry.name, entry)
        for name in here.keys() & index.entries.keys():
            logger.warning("task '%s' of %s replaces the one of %s", name, folder, index.entries[name].path)
        index.entries |= here
    return index


def _python_entries(path: Path) -> list[Entry]:
    """The task classes of a file, which is read but not run."""
    return [Entry(found.name, "task", path, task_class=found) for found in task_classes_in(path)]


def _yaml_entries(path: Path) -> list[Entry]:
    """What a file defines; a file that is only there to be included defines nothing."""
    file = read_yaml(path)
    kind: Literal["task", "group"] = "group" if "group" in file.data else "task"
    name = file.data.get(kind)
    if name is None or name == "" or isinstance(name, list):
        return []
    if not isinstance(name, str):
        what = f"expected a name, got {shorten(name)}"
        raise ConfigError(what, where=f"{file.source.at(kind)}: {kind}", hint=f"write {kind}: '{name}' if it is one")
    return [Entry(name if kind == "group" else name.partition("@")[0], kind, path, _tags(file))]


def _tags(file: YamlFile) -> tuple[str, ...]:
    tags = file.data.get("tag") or ()
    if not isinstance(tags, str | list | tuple):
        what = f"expected a tag or a list of them, got {shorten(tags)}"
        raise ConfigError(what, where=f"{file.source.at('tag')}: tag", hint="write e.g. tag: [science, english]")
    return (tags,) if isinstance(tags, str) else tuple(map(str, tags))
