"""Read which names task files define, and which files they include."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, reason, shorten
from multiform.tasks.group import subset_tasks
from multiform.tasks.index_cache import ABOUT, FolderIndex, Kind, Name, Record, Stamp, stamp_of
from multiform.tasks.python_tasks import task_classes_in
from multiform.tasks.source import StatedKeys, display
from multiform.tasks.yaml import read_yaml

#: The keys of a group with subsets that the names of its tasks depend on.
_OF_FAMILY = ("group", "task", "subsets", "metadata")


def read_files(root: str, files: Mapping[str, Stamp]) -> tuple[FolderIndex, dict[str, ConfigError]]:
    """Read files of a folder, which are given with their stamps; also returns the errors of those that are broken."""
    index = FolderIndex()
    broken: dict[str, ConfigError] = {}
    for file, stamp in files.items():
        path = Path(root, file)
        included: dict[Path, StatedKeys] = {}
        try:
            names = _classes(path) if file.endswith(".py") else _names(read_yaml(path, included))
        except ConfigError as error:
            broken[file] = error
        except (RecursionError, MemoryError) as error:
            broken[file] = ConfigError(f"cannot be read: {reason(error)}", where=display(path), hint="make it simpler")
        else:
            watched = [str(target).removeprefix(root + os.sep) for target in included]
            index.included.update({name: stamp_of(os.path.join(root, name)) for name in watched})
            if os.access(path, os.R_OK):  # rights may change, and leave the stamp as it is
                index.files[file] = Record(stamp, names, tuple(watched))
    return index, broken


def _names(stated: StatedKeys) -> tuple[Name, ...]:
    """What a file defines; one that is only there to be included defines nothing."""
    keys = stated.data
    kind: Kind = "group" if "group" in keys and "class" not in keys else "task"
    name, tags = keys.get(kind), keys.get("tag") or ()
    if name is None or name == "" or (kind == "task" and isinstance(name, list)):
        return ()
    if not isinstance(name, str):
        hint = f"write {kind}: '{name}' if it is one"
        if isinstance(name, list):
            hint = f"write tag: {shorten(name)} for what several tasks have in common"
        raise ConfigError(f"expected a name, got {shorten(name)}", where=_place(stated, kind), hint=hint)
    if not isinstance(tags, str | list | tuple):
        message = f"expected a tag or a list of them, got {shorten(tags)}"
        raise ConfigError(message, where=_place(stated, "tag"), hint="write e.g. tag: [science, english]")
    words = (tags,) if isinstance(tags, str) else tuple(map(str, tags))
    named = Name(name if kind == "group" else name.partition("@")[0], kind, words, about=_about(keys))
    if kind == "task" or not keys.get("subsets"):
        return (named,)
    tasks = subset_tasks(StatedKeys({key: keys[key] for key in _OF_FAMILY if key in keys}, stated.source))
    return (named, *(Name(task, "task", family=name, about=_about(tasks[task].data)) for task in tasks))


def _place(stated: StatedKeys, key: str) -> str:
    assert stated.source is not None
    return f"{stated.source.at(key)}: {key}"


def _about(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata says of a task, of the keys that are listed."""
    metadata = keys.get("metadata")
    return {key: metadata[key] for key in ABOUT if key in metadata} if isinstance(metadata, dict) else {}


def _classes(path: Path) -> tuple[Name, ...]:
    """The task classes of a Python file, which is read but not run."""
    return tuple(Name(kind.name, "task", (), kind.attribute, kind.line) for kind in task_classes_in(path))
