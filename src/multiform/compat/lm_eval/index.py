"""What task files say, as plain dicts, and the names that they define."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from multiform.compat.errors import convert_errors
from multiform.tasks.functions import FunctionRef, resolve_functions
from multiform.tasks.index import Entry as OurEntry
from multiform.tasks.index import Index
from multiform.tasks.yaml import IncludeCycleError, read_own, read_yaml


def load_yaml(path: str | Path, *, resolve_func: bool = True, recursive: bool = True) -> dict[str, Any]:
    """What a task file says, its own keys above those of the files that it includes.

    `!function` is the function itself, or its place and name as text with ``resolve_func=False``. Without `recursive`
    nothing is included.
    """
    file = Path(path).expanduser()
    with convert_errors(ValueError):
        try:
            data = (read_yaml if recursive else read_own)(file).data
        except IncludeCycleError as error:  # lm-eval's message begins with a capital
            raise error.moved(error.where, what=f"I{error.what[1:]}") from error
        resolved = resolve_functions(data) if resolve_func else _name_functions(data)
    assert isinstance(resolved, dict)
    return resolved


def _name_functions(value: Any) -> Any:
    """The same data with the place and name of each function in place of it."""
    if isinstance(value, FunctionRef):
        return str(value.folder / value.name)
    if isinstance(value, dict):
        return {key: _name_functions(item) for key, item in value.items()}
    return [_name_functions(item) for item in value] if isinstance(value, list) else value


class Kind(Enum):
    """What a name stands for."""

    TASK = auto()
    PY_TASK = auto()
    GROUP = auto()
    TAG = auto()
    UNKNOWN = auto()


@dataclass
class Entry:
    """A name, and the file that defines it; a tag has the tasks that carry it in `tags`."""

    name: str
    kind: Kind
    yaml_path: Path | None
    cfg: dict[str, Any] | None = None
    tags: set[str] = field(default_factory=set)


class KnownNames(Mapping[str, Entry]):
    """The names that a manager knows; a task's file is read when its configuration is asked for."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, name: str) -> Entry:
        if name in self._index.entries:
            return _entry(self._index.entries[name])
        return Entry(name, Kind.TAG, None, tags=set(self._index.tags()[name]))

    def __iter__(self) -> Any:
        return iter({**self._index.entries, **self._index.tags()})

    def __len__(self) -> int:
        return len({**self._index.entries, **self._index.tags()})

    def __contains__(self, name: object) -> bool:
        return name in self._index.entries or name in self._index.tags()


def _entry(entry: OurEntry) -> Entry:
    if entry.attribute is not None or entry.path.suffix == ".py":
        return Entry(entry.name, Kind.PY_TASK, None, tags=set(entry.tags))
    if entry.kind == "group":
        return Entry(entry.name, Kind.GROUP, entry.path, tags=set(entry.tags))
    cfg = load_yaml(entry.path, resolve_func=False)
    kind = Kind.PY_TASK if "class" in cfg else Kind.TASK
    return Entry(entry.name, kind, entry.path, cfg, set(entry.tags))
