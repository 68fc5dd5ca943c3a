"""What the task files of folders define, by name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from multiform.catalog.index import Entry as OurEntry
from multiform.catalog.index import Index
from multiform.compat.lm_eval.tasks._yaml_loader import load_yaml
from multiform.errors import MultiformError

log = logging.getLogger(__name__)
_IGNORED = ("__pycache__", ".ipynb_checkpoints")


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


class TaskIndex:
    """Reads the task files of folders."""

    def __init__(self, *, meta: Mapping[str, str] | None = None) -> None:
        self.meta = meta

    @staticmethod
    def build(paths: Iterable[Path], *, resolve_includes: bool = True) -> dict[str, Entry]:
        """All names; of two folders that define one, the later counts, and of two files of a folder the first."""
        index: dict[str, Entry] = {}
        for root in paths:
            here: dict[str, Entry] = {}
            for file in TaskIndex._iter_yaml_files(root):
                try:
                    TaskIndex.process_cfg(load_yaml(file, resolve_func=False, recursive=resolve_includes), file, here)
                except (MultiformError, ValueError) as error:
                    log.debug("%s is left out: %s", file, error)
            for name in here.keys() & index.keys():
                log.warning("'%s' of %s replaces that of %s", name, here[name].yaml_path, index[name].yaml_path)
            index |= here
        return index

    @staticmethod
    def _iter_yaml_files(root: Path) -> list[Path]:
        files = (file for file in Path(root).glob("**/*.yaml") if not set(_IGNORED) & set(file.parts))
        return sorted(files, key=Path.as_posix)

    @staticmethod
    def process_cfg(cfg: dict[str, Any], path: Path, index_: dict[str, Entry]) -> None:
        """Add what a file defines."""
        kind = TaskIndex._kind_of(cfg)
        name = cfg["group"] if kind is Kind.GROUP else cfg["task"]
        if name in index_:
            level, message = (logging.DEBUG, "group") if kind is Kind.GROUP else (logging.WARNING, "task")
            log.log(level, "Duplicate %s name '%s': %s is used, %s is not", message, name, index_[name].yaml_path, path)
            return
        tags = [cfg["tag"]] if isinstance(cfg.get("tag"), str) else list(cfg.get("tag") or ())
        index_[name] = Entry(name, kind, path, cfg, set(tags))
        for tag in tags if kind is not Kind.GROUP else ():
            index_.setdefault(tag, Entry(tag, Kind.TAG, None)).tags.add(name)

    @staticmethod
    def _kind_of(cfg: Mapping[str, Any]) -> Kind:
        for key, kind in (("class", Kind.PY_TASK), ("group", Kind.GROUP), ("task", Kind.TASK)):
            if key in cfg:
                return kind
        raise ValueError(f"Unknown config shape: keys={list(cfg)}")

    @staticmethod
    def entry_from_path(path: Path) -> Entry | None:
        """What a file defines, or None where there is none."""
        file = path.expanduser().resolve()
        return TaskIndex.entry_from_config(load_yaml(file, resolve_func=False), file) if file.is_file() else None

    @staticmethod
    def entry_from_config(cfg: dict[str, Any], path: Path | None = None) -> Entry | None:
        """What a configuration defines."""
        kind = TaskIndex._kind_of(cfg)
        name = cfg.get("group") if kind is Kind.GROUP else cfg.get("task")
        return Entry(name, kind, path, None if path else cfg) if isinstance(name, str) else None


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
    return Entry(entry.name, TaskIndex._kind_of(cfg), entry.path, cfg, set(entry.tags))
