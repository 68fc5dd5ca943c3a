"""Read which names task files define: from an outline where a file is plain, otherwise with the full parser.

Many files are read in several processes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from multiform.errors import ConfigError, reason, shorten
from multiform.tasks.group import subset_tasks
from multiform.tasks.index_cache import ABOUT, ABSENT, UNSURE, Fault, FolderIndex, Kind, Name, Record, Stamp, stamp_of
from multiform.tasks.parse import MAX_NODES, check_nesting, expanded_size
from multiform.tasks.python_tasks import task_classes_in
from multiform.tasks.source import Source, StatedKeys, paths_in_full
from multiform.tasks.yaml import check_depth, read_text, read_yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS = ("task", "group", "tag", "class", "include", "subsets", "metadata")
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "bool")}
_NUMBERS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}
_LIST, _MAPPING, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("seq", "map", "merge"))
_FUNCTION = re.compile(r"\w+(\.\w+)+")


@dataclass(frozen=True, slots=True)
class Outline:
    """The defining keys of a task file, without those of the files that it includes.

    `plain` is false where something in the file is wrong or uncommon, so that it has to be read with `read_yaml`.
    """

    keys: dict[str, Any]
    plain: bool


NOTHING = Outline({}, False)


def outline(text: str) -> Outline:
    """The outline of a task file's text, in a third of the time of `read_yaml` or less.

    >>> outline("task: arc\\ntag: [science]\\ndoc_to_text: !function utils.text")
    Outline(keys={'task': 'arc', 'tag': ['science']}, plain=True)
    """
    loader = None
    try:
        check_nesting(text)
        loader = _BASE(text.removeprefix("\ufeff"))
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode) or expanded_size(node) > MAX_NODES:
            return NOTHING
        plain = _is_plain(loader, node)
        if not plain:
            loader.flatten_mapping(node)
        values = {key.value: value for key, value in node.value if key.value in _KEYS}  # the last of two counts
        keys = {key: _value(loader, key, value) for key, value in values.items()}
        return Outline(keys, plain and None not in (keys.get(key, key) for key in ("include", "tag")))
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError):
        return NOTHING
    finally:
        if loader is not None:
            loader.dispose()


def _value(loader: Any, key: str, node: Any) -> Any:
    """The value of a key: a scalar, a list of scalars, or None; a list of members under `task` becomes empty.

    `subsets` and `metadata` are read in full.
    """
    if key == "class":
        return True
    if key in ("subsets", "metadata"):
        return loader.construct_object(node, deep=True)
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_object(node)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return [loader.construct_object(item) for item in node.value]
    return [] if key == "task" and isinstance(node, yaml.SequenceNode) else None


def _is_plain(loader: Any, node: Any) -> bool:
    """Whether the file holds nothing but scalars that can be read, lists, and mappings with scalar keys."""
    waiting = [node]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _PLAIN and not _is_readable(loader, node):
                return False
        elif node.tag == _LIST:
            waiting += _new(node, seen)
        elif node.tag == _MAPPING:
            for key, value in _new(node, seen):
                if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                    return False
                waiting += (key, value)
        else:
            return False
    return True


def _new(node: Any, seen: set[int]) -> Any:
    """The items of a list or mapping, once: an alias repeats a node that was visited already."""
    if id(node) in seen:
        return ()
    seen.add(id(node))
    return node.value


def _is_readable(loader: Any, node: Any) -> bool:
    if node.tag == "!function":
        return _FUNCTION.fullmatch(node.value) is not None
    if node.tag in _NUMBERS:
        loader.construct_object(node)  # raises where there is no such date or number
        return True
    return False


#: Starting another process takes as long as reading this many files.
_WORTH_A_PROCESS = 500
_CHUNKS_PER_WORKER = 4
#: The keys of a group with subsets that the names of its tasks depend on.
_OF_FAMILY = ("group", "task", "subsets", "metadata")


class Reader:
    """Reads the task files of a folder; a file that several of them include is read once."""

    def __init__(self, root: str) -> None:
        self.root = root
        #: The stamps of all included files, from before they were read; names below the folder are relative to it.
        self.included: dict[str, Stamp] = {}
        self._parts: dict[str, tuple[str, Outline]] = {}
        #: The keys of included files over those of what they include, and all files that these include.
        self._merged: dict[str, tuple[dict[str, Any] | None, dict[str, None]]] = {}

    def read_record(self, file: str, stamp: Stamp) -> Record:
        """The record of a file, whose name is relative to the folder."""
        path = os.path.join(self.root, file)
        included: dict[str, None] = {}  # a set that keeps its order
        try:
            if file.endswith(".py"):
                return Record(stamp if os.access(path, os.R_OK) else UNSURE, _classes(path))
            return Record(stamp, self._names(path, included), tuple(included))
        except (RecursionError, MemoryError) as error:
            return Record(
                stamp, (), tuple(included), Fault(f"cannot be read: {reason(error)}", path, "make it simpler")
            )
        except ConfigError as error:
            if isinstance(error.__cause__, OSError):  # rights may change, and leave the stamp as it is
                stamp = UNSURE
            return Record(stamp, (), tuple(included), Fault(error.what, error.where, error.hint))

    def _names(self, path: str, included: dict[str, None]) -> tuple[Name, ...]:
        real = os.path.realpath(path) if os.path.islink(path) else path
        keys = self._keys(real, _outline(real), included, ())
        names = None if keys is None else _names(keys)
        return _names_strictly(path) if names is None else names

    def _keys(
        self, path: str, file: Outline, included: dict[str, None], chain: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """The keys of a file over those of what it includes; None where one of these files is not plain."""
        names = file.keys.get("include", [])
        merged: dict[str, Any] | None = {} if file.plain else None
        for name in names if isinstance(names, list) else [names]:
            if not isinstance(name, str):
                return None
            target, part = self._part(os.path.join(os.path.dirname(path), name), included)
            if target in (*chain, path):
                return None
            check_depth((*chain, path), f"{path}: include")
            inner = self._included_keys(target, part, included, (*chain, path))
            merged = None if merged is None or inner is None else merged | inner
        return None if merged is None else merged | {key: file.keys[key] for key in file.keys if key != "include"}

    def _included_keys(
        self, path: str, file: Outline, included: dict[str, None], chain: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """The same for an included file, worked out once however many files include it."""
        if path not in self._merged:
            inside: dict[str, None] = {}
            self._merged[path] = self._keys(path, file, inside, chain), inside
        keys, inside = self._merged[path]
        included |= inside
        return keys

    def _part(self, path: str, included: dict[str, None]) -> tuple[str, Outline]:
        """The real path and the outline of an included file."""
        name = self._watch(path, included)
        if self.included[name] == ABSENT:  # the message names the files that are there instead
            self._watch(os.path.dirname(path), included)
        if name not in self._parts:
            try:
                real = os.path.realpath(path)
            except ValueError:  # no file can have that name, which reading it strictly says
                real = path
            self._parts[name] = real, _outline(real)
        return self._parts[name]

    def _watch(self, path: str, included: dict[str, None]) -> str:
        name = path.removeprefix(self.root + os.sep)
        included[name] = None
        if name not in self.included:
            self.included[name] = stamp_of(path)
        return name


def _outline(path: str) -> Outline:
    try:
        return outline(read_text(Path(path)))
    except ConfigError:
        return NOTHING


def _names(keys: Mapping[str, Any], source: Source | None = None) -> tuple[Name, ...] | None:
    """What the keys define; a file that is only there to be included defines nothing.

    Wrong keys raise an error where the source is known, and give None where it is not.
    """
    kind: Kind = "group" if "group" in keys and "class" not in keys else "task"
    name, tags = keys.get(kind), keys.get("tag") or ()
    if name is None or name == "" or (kind == "task" and isinstance(name, list)):
        return ()
    if isinstance(name, str) and isinstance(tags, str | list | tuple):
        words = (tags,) if isinstance(tags, str) else tuple(map(str, tags))
        named = Name(name if kind == "group" else name.partition("@")[0], kind, words, about=_about(keys))
        if kind == "task" or not keys.get("subsets"):
            return (named,)
        try:
            tasks = subset_tasks(StatedKeys({key: keys[key] for key in _OF_FAMILY if key in keys}, source))
        except ConfigError:
            if source is None:
                return None
            raise
        return (named, *(Name(task, "task", family=name, about=_about(tasks[task].data)) for task in tasks))
    if source is None:
        return None
    if not isinstance(name, str):
        message = f"expected a name, got {shorten(name)}"
        hint = f"write {kind}: '{name}' if it is one"
        if isinstance(name, list):
            hint = f"write tag: {shorten(name)} for what several tasks have in common"
        raise ConfigError(message, where=f"{source.at(kind)}: {kind}", hint=hint)
    message = f"expected a tag or a list of them, got {shorten(tags)}"
    raise ConfigError(message, where=f"{source.at('tag')}: tag", hint="write e.g. tag: [science, english]")


def _about(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata says of a task, of the keys that are listed."""
    metadata = keys.get("metadata")
    return {key: metadata[key] for key in ABOUT if key in metadata} if isinstance(metadata, dict) else {}


def _names_strictly(path: str) -> tuple[Name, ...]:
    """The names that a file defines, read with the full parser, whose errors name the line."""
    with paths_in_full():
        file = read_yaml(Path(path))
        return _names(file.data, file.source) or ()


def _classes(path: str) -> tuple[Name, ...]:
    """The task classes of a Python file, which is read but not run."""
    with paths_in_full():
        return tuple(
            Name(task_class.name, "task", (), task_class.attribute, task_class.line)
            for task_class in task_classes_in(Path(path))
        )


def read_files(root: str, files: Mapping[str, Stamp]) -> FolderIndex:
    """Read the files, in several processes where that is safe and worth it.

    `files` has the stamp of each file, by its path relative to `root`.
    """
    workers = min(_processors(), len(files) // _WORTH_A_PROCESS)
    return _read_files(root, files) if workers < 2 or not _may_fork() else _read_in_processes(root, files, workers)


def _read_in_processes(root: str, files: Mapping[str, Stamp], workers: int) -> FolderIndex:
    # Imported here, as the cached index is mostly up to date.
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    names = list(files)
    size = -(-len(names) // (workers * _CHUNKS_PER_WORKER))  # neighbours stay together: they include the same files
    chunks = [{name: files[name] for name in names[start : start + size]} for start in range(0, len(names), size)]
    try:
        with ProcessPoolExecutor(workers, get_context("fork"), initializer=_leave_interrupts_to_the_parent) as pool:
            return join_indexes(pool.map(_read_files, [root] * len(chunks), chunks))
    except (OSError, BrokenProcessPool):  # no more processes can be started, so this one reads all files
        return _read_files(root, files)


def _read_files(root: str, files: Mapping[str, Stamp]) -> FolderIndex:
    reader = Reader(root)
    return FolderIndex({file: reader.read_record(file, stamp) for file, stamp in files.items()}, reader.included)


def join_indexes(indexes: Iterable[FolderIndex]) -> FolderIndex:
    """All parts as one; an included file that changed while the parts were read gets an unsure stamp."""
    combined = FolderIndex()
    for part in indexes:
        combined.files.update(part.files)
        for file, stamp in part.included.items():
            if combined.included.setdefault(file, stamp) != stamp:
                combined.included[file] = UNSURE
    return combined


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _may_fork() -> bool:
    """Whether forking this process is safe: on Linux, with a single thread, and not in a daemonic worker."""
    from multiprocessing import current_process

    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return False
    return sys.platform == "linux" and threads == 1 and not current_process().daemon


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
