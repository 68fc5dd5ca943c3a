"""Folders of task files, and the names that each of their files defines.

The names are cached in one file for each folder, which is replaced as a whole; files that have not changed are not read
again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from multiform.errors import ConfigError, UsageError, excerpt, reason
from multiform.hashing import sha256
from multiform.paths import cache_root, display, is_dir, is_file, replace_file
from multiform.registry import entry_points_of, package_of

if TYPE_CHECKING:
    from multiform.tasks.keys import StatedKeys
    from multiform.tasks.python_tasks import TaskClass

logger = logging.getLogger("multiform")

LIBRARY = Path(__file__).parent / "library"
#: The name in `--include_path` for the tasks of the installed lm-eval.
_LM_EVAL = "lm_eval"


def task_folders(include_path: str | Path | Iterable[str | Path] | None, *, library: bool = True) -> list[Path]:
    """The bundled library and those of plug-ins, unless `library` is false, and the folders of `include_path`.

    Later folders win.
    """
    names = [include_path] if isinstance(include_path, str | Path) else list(include_path or ())
    return [*([LIBRARY, *plugin_folders()] if library else []), *map(_folder, names)]


def plugin_folders() -> list[Path]:
    """The folders of task files that installed packages name in the group ``multiform.tasks``.

    The packages are found, and not imported.
    """
    folders = []
    for point in entry_points_of("multiform.tasks").values():
        top, *rest = point.module.split(".")
        spec = find_spec(top)
        roots = [] if spec is None else list(spec.submodule_search_locations or ())
        found = [folder for root in roots if (folder := Path(root, *rest)).is_dir()]
        folders += found[:1]
        if not found:
            package = package_of(point)
            logger.warning("plug-in '%s' (multiform.tasks) of %s: no package '%s'", point.name, package, point.value)
    return folders


def _folder(name: str | Path) -> Path:
    path = Path(name)
    if is_dir(path):
        if str(name) == _LM_EVAL:
            logger.warning("--include_path %s: the folder here is used, not the installed lm-eval", name)
        return path
    if is_file(path):
        what, hint = f"{excerpt(str(path))} is a file", "give the folder that it is in, or name the file as a task"
        raise UsageError(what, where="--include_path", hint=hint)
    if str(name) != _LM_EVAL:
        raise UsageError(f"no folder {excerpt(str(path))}", where="--include_path", hint="check the path")
    folder = lm_eval_folder()
    if folder is None:
        message = "lm-eval is not installed, and there is no folder 'lm_eval'"
        hint = "pip install lm-eval, or give the path of its tasks"
        raise UsageError(message, where="--include_path lm_eval", hint=hint)
    return folder


def lm_eval_folder() -> Path | None:
    """The folder of task files of the installed lm-eval, which is not imported; None if it is not installed."""
    from multiform.imports import lm_eval_finder as finder

    package = finder.real_folder()
    return package / "tasks" if package is not None and (package / "tasks").is_dir() else None


#: The size of a file and when it was last written, in nanoseconds.
Stamp = tuple[int, int]
ABSENT: Stamp = (-1, 0)
#: The stamp of a file that may change without a new stamp. No file has it, so such a file is read again.
UNSURE: Stamp = (-2, 0)
_ENDINGS = (".yaml", ".py")
_IGNORED = ("__pycache__", ".ipynb_checkpoints")
#: Reading a folder of fewer files takes no longer than reading its cached index.
_WORTH_CACHING = 50
#: The resolution of the coarsest file system clock, in nanoseconds: two writes within it may have the same time.
_TICK = 2_000_000_000


def _scan(folder: str, prefix: str = "") -> Iterator[tuple[str, Stamp]]:
    """The task files below a folder with their stamps; symbolic links to folders are not followed."""
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except OSError:  # the folder may not be read, or is gone by now
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _IGNORED:
                yield from _scan(entry.path, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_ENDINGS):
            with contextlib.suppress(OSError):  # a link to nowhere or to itself
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    yield prefix + entry.name, (status.st_size, status.st_mtime_ns)


def stamp_of(path: str) -> Stamp:
    """The stamp of a file or folder; that of a folder changes when a file is added to it or removed."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return status.st_size, status.st_mtime_ns


def safe_stamp(stamp: Stamp, started: int, ended: int) -> Stamp:
    """The stamp to cache for a file that was read between two times.

    A file that was modified at about that time may be modified once more without a new stamp.
    """
    return UNSURE if started - _TICK < stamp[1] < ended + _TICK else stamp


Kind = Literal["task", "group"]
#: The keys of a task's metadata that are listed with it.
ABOUT = ("title", "kind", "rows", "language", "licence")


class Entry(NamedTuple):
    """A task or group by its name, with the file that defines it."""

    name: str
    kind: Kind
    tags: Sequence[str] = ()
    #: Of a task that is a class in a Python file: the name of the class, and its line.
    attribute: str | None = None
    line: int = 0
    #: The group with `subsets` that defines the task.
    family: str | None = None
    #: What the metadata says of the task, see `ABOUT`.
    about: Mapping[str, Any] = {}
    #: The folder, and the file in it; neither is cached.
    folder: Path = Path()
    file: str = ""

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self.file

    @property
    def task_class(self) -> TaskClass | None:
        """The class of a Python task, not yet imported; None for a task in YAML."""
        if self.attribute is None:
            return None
        from multiform.tasks.python_tasks import TaskClass

        return TaskClass(self.name, self.attribute, self.path, self.line)


class Record(NamedTuple):
    """What a file with this stamp defines; `included` has the stamps of all files that it includes, also indirectly."""

    stamp: Stamp
    names: Sequence[Entry] = ()
    included: Mapping[str, Stamp] = {}


#: Increased when the file's layout, or the rule for what is a task, changes; files of other versions are ignored.
_VERSION = 5


def cache_path(root: str) -> Path:
    """The file that holds the cached index of a folder."""
    return cache_root() / "tasks" / f"{sha256(os.fsencode(root))[:32]}.index"


def load(root: str) -> dict[str, Record]:
    """The cached records of a folder's files; none if there are none, or they are damaged or of another version."""
    try:
        header, _, body = cache_path(root).read_bytes().partition(b"\n")
        files = json.loads(body) if header == _header(body) else {}
        return {file: _read_record(*values) for file, values in files.items()}
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError):  # RuntimeError: there is no home folder
        return {}


def _read_record(stamp: Sequence[int], names: Sequence[Sequence[Any]], included: Mapping[str, Any]) -> Record:
    entries = tuple(Entry(name, kind, tuple(tags), *rest) for name, kind, tags, *rest in names)
    return Record((stamp[0], stamp[1]), entries, {name: (size, written) for name, (size, written) in included.items()})


def _header(body: bytes) -> bytes:
    return f"multiform task index {_VERSION} {zlib.crc32(body):08x}".encode()


def read_folder(folder: Path) -> tuple[dict[str, Record], dict[str, ConfigError]]:
    """The records of a folder's task files, sorted by name, and the errors of those that are broken.

    Only files that are broken, or changed since the last run, are read.
    """
    root = os.path.realpath(folder)
    started = time.time_ns()
    files = dict(sorted(_scan(root)))
    cached = load(root) if len(files) >= _WORTH_CACHING else {}
    included = {name for record in cached.values() for name in record.included}
    stamps = {name: stamp_of(os.path.join(root, name)) for name in included}
    known = {
        file: record
        for file, record in cached.items()
        if files.get(file) == record.stamp and all(stamps[name] == stamp for name, stamp in record.included.items())
    }
    if len(known) == len(files):
        return known, {}
    new, broken = _read_files(root, {file: stamp for file, stamp in files.items() if file not in known})
    known |= new
    records = {file: known[file] for file in files if file in known}
    if new and len(files) >= _WORTH_CACHING:
        _save_index(root, records, started)
    return records, broken


def _save_index(root: str, records: Mapping[str, Record], started: int) -> None:
    """Cache the records. Of several processes that do so at once the last one wins: all have read the same files."""
    ended = time.time_ns()
    files = {
        file: (
            safe_stamp(record.stamp, started, ended),
            [name[:7] for name in record.names],
            {name: safe_stamp(stamp, started, ended) for name, stamp in record.included.items()},
        )
        for file, record in records.items()
    }
    body = json.dumps(files, separators=(",", ":")).encode("ascii")
    try:
        with replace_file(cache_path(root)) as file:
            file.write_bytes(_header(body) + b"\n" + body)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _warn_once(f"the index of task files cannot be cached: {error}; set MULTIFORM_CACHE to a folder of yours")


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


#: The keys of a group with subsets that the names of its tasks depend on.
_OF_FAMILY = ("group", "task", "subsets", "metadata")


def _read_files(root: str, files: Mapping[str, Stamp]) -> tuple[dict[str, Record], dict[str, ConfigError]]:
    """Read files of a folder, which are given with their stamps; also returns the errors of those that are broken."""
    from multiform.tasks.yaml import read_yaml  # here and below: the cached index is mostly up to date

    records: dict[str, Record] = {}
    broken: dict[str, ConfigError] = {}
    known: dict[Path, StatedKeys] = {}
    for file, stamp in files.items():
        path, included = Path(root, file), frozenset[Path]()
        try:
            if file.endswith(".py"):
                names = _classes(path)
            else:
                stated = read_yaml(path, known)
                names, included = _names(stated), stated.included
        except ConfigError as error:
            broken[file] = error
        except (RecursionError, MemoryError) as error:
            broken[file] = ConfigError(f"cannot be read: {reason(error)}", where=display(path), hint="make it simpler")
        else:
            if os.access(path, os.R_OK):  # rights may change, and leave the stamp as it is
                watched = {str(target).removeprefix(root + os.sep): stamp_of(str(target)) for target in included}
                records[file] = Record(stamp, names, watched)
    return records, broken


def _names(stated: StatedKeys) -> tuple[Entry, ...]:
    """What a file defines; one that is only there to be included defines nothing."""
    keys = stated.data
    kind: Kind = "group" if "group" in keys and "class" not in keys else "task"
    name, tags = keys.get(kind), keys.get("tag") or ()
    if name is None or name == "" or (kind == "task" and isinstance(name, list)):
        return ()
    if not isinstance(name, str):
        hint = f"write {kind}: '{name}' if it is one"
        if isinstance(name, list):
            hint = f"write tag: {excerpt(name)} for what several tasks have in common"
        raise ConfigError(f"expected a name, got {excerpt(name)}", where=stated.where(kind), hint=hint)
    if not isinstance(tags, str | list | tuple):
        message = f"expected a tag or a list of them, got {excerpt(tags)}"
        raise ConfigError(message, where=stated.where("tag"), hint="write e.g. tag: [science, english]")
    words = (tags,) if isinstance(tags, str) else tuple(map(str, tags))
    named = Entry(name if kind == "group" else name.partition("@")[0], kind, words, about=_about(keys))
    if kind == "task" or not keys.get("subsets"):
        return (named,)
    from multiform.tasks.group import subset_tasks
    from multiform.tasks.keys import StatedKeys

    tasks = subset_tasks(StatedKeys({key: keys[key] for key in _OF_FAMILY if key in keys}, stated.source))
    return (named, *(Entry(task, "task", family=name, about=_about(tasks[task].data)) for task in tasks))


def _about(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata says of a task, of the keys that are listed."""
    metadata = keys.get("metadata")
    return {key: metadata[key] for key in ABOUT if key in metadata} if isinstance(metadata, dict) else {}


def _classes(path: Path) -> tuple[Entry, ...]:
    """The task classes of a Python file, which is read but not run."""
    from multiform.tasks.python_tasks import task_classes_in

    return tuple(Entry(cls.name, "task", attribute=cls.attribute, line=cls.line) for cls in task_classes_in(path))
