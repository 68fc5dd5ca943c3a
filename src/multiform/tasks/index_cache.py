"""The cached index of a task folder: what each of its files defines, by the file's stamp.

There is one file for each folder, which is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from multiform.paths import cache_root, replace_file

#: The size of a file and when it was last written, in nanoseconds.
Stamp = tuple[int, int]
ABSENT: Stamp = (-1, 0)
#: The stamp of a file that may change without a new stamp. No file has it, so such a file is read again.
UNSURE: Stamp = (-2, 0)
_ENDINGS = (".yaml", ".py")
_IGNORED = ("__pycache__", ".ipynb_checkpoints")
#: The resolution of the coarsest file system clock, in nanoseconds: two writes within it may have the same time.
_TICK = 2_000_000_000


def scan(folder: str) -> dict[str, Stamp]:
    """The task files below a folder with their stamps, sorted by name; symbolic links to folders are not followed."""
    return dict(sorted(_below(folder, "")))


def _below(folder: str, prefix: str) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except OSError:  # the folder may not be read, or is gone by now
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _IGNORED:
                yield from _below(entry.path, f"{prefix}{entry.name}/")
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


class Name(NamedTuple):
    """A name that a file defines: a task or group of YAML, or a class at a line of a Python file."""

    name: str
    kind: Kind
    tags: Sequence[str] = ()
    attribute: str | None = None
    line: int = 0
    family: str | None = None
    about: Mapping[str, Any] = {}


class Record(NamedTuple):
    """What a file with this stamp defines; `included` has all files that it includes, also indirectly."""

    stamp: Stamp
    names: Sequence[Name] = ()
    included: Sequence[str] = ()


#: Increased when the file's layout, or the rule for what is a task, changes; files of other versions are ignored.
_VERSION = 3


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """The records of a folder's files, but for broken ones, and the stamps of the files that they include."""

    files: dict[str, Record] = field(default_factory=dict)
    included: dict[str, Stamp] = field(default_factory=dict)


def cache_path(root: str) -> Path:
    """The file that holds the cached index of a folder."""
    return cache_root() / "tasks" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.index"


def load(root: str) -> FolderIndex:
    """The cached index of a folder; empty if there is none, or it is damaged or of another version."""
    try:
        header, _, body = cache_path(root).read_bytes().partition(b"\n")
        return _unpack(json.loads(body)) if header == _header(body) else FolderIndex()
    except (OSError, RuntimeError, ValueError, TypeError, LookupError):  # RuntimeError: there is no home folder
        return FolderIndex()


def save(root: str, index: FolderIndex) -> None:
    """Cache the index. Of several processes that do so at once the last one wins: all have read the same files."""
    body = json.dumps({"root": root, **_pack(index)}, separators=(",", ":")).encode("ascii")
    with replace_file(cache_path(root)) as file:
        file.write_bytes(_header(body) + b"\n" + body)


def _header(body: bytes) -> bytes:
    return f"multiform task index {_VERSION} {zlib.crc32(body):08x}".encode()


def _pack(index: FolderIndex) -> dict[str, Any]:
    """The records as columns, which load five times as fast as objects.

    Kind, tags and includes of files that define a single name are stored once for all files that share them;
    the names of other files are stored in full.
    """
    shapes: dict[tuple[Any, ...], int] = {}
    odd: dict[str, Any] = {}
    names, ids = [], []
    for file, record in index.files.items():
        name = record.names[0] if record.names else Name("", "task")
        if len(record.names) > 1 or name.attribute or name.about:
            odd[file] = record.names
        names.append(name.name)
        ids.append(shapes.setdefault((name.kind, tuple(name.tags), tuple(record.included)), len(shapes)))
    return {
        "files": list(index.files),
        "sizes": [record.stamp[0] for record in index.files.values()],
        "times": [record.stamp[1] for record in index.files.values()],
        "names": names,
        "shapes": [list(shapes), ids],
        "odd": odd,
        "included": index.included,
    }


def _unpack(content: dict[str, Any]) -> FolderIndex:
    shapes = [(kind, tuple(tags), tuple(included)) for kind, tags, included in content["shapes"][0]]
    columns = (content[column] for column in ("files", "sizes", "times", "names"))
    files = {}
    for file, size, written, name, shape in zip(*columns, content["shapes"][1], strict=True):
        kind, tags, included = shapes[shape]
        files[file] = Record((size, written), (Name(name, kind, tags),) if name else (), included)
    for file, names in content["odd"].items():
        files[file] = files[file]._replace(
            names=tuple(Name(name, kind, tuple(tags), *rest) for name, kind, tags, *rest in names)
        )
    return FolderIndex(files, {file: (size, time) for file, (size, time) in content["included"].items()})
