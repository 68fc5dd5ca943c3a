"""The cached index of a task folder: one file per folder, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiform.paths import cache_root, replace_file
from multiform.tasks.index.entry import Fault, Name, Record
from multiform.tasks.index.stamps import Stamp

#: Increased when the file's layout, or the rule for what is a task, changes; files of other versions are ignored.
_VERSION = 2


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """The records of a folder's files, and the stamps of the files that they include."""

    files: dict[str, Record] = field(default_factory=dict)
    included: dict[str, Stamp] = field(default_factory=dict)


def cache_path(root: str) -> Path:
    """The file that holds the cached index of a folder."""
    return cache_root() / "tasks" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.index"


def load(root: str) -> FolderIndex:
    """The cached index of a folder; empty where there is none, or it is damaged or of another version."""
    try:
        header, _, body = cache_path(root).read_bytes().partition(b"\n")
        return _unpacked(json.loads(body)) if header == _header(body) else FolderIndex()
    except (OSError, RuntimeError, ValueError, TypeError, LookupError):  # RuntimeError: there is no home folder
        return FolderIndex()


def save(root: str, index: FolderIndex) -> None:
    """Cache the index. Of several processes that do so at once the last one wins: all have read the same files."""
    body = json.dumps({"root": root, **_packed(index)}, separators=(",", ":")).encode("ascii")
    with replace_file(cache_path(root)) as file:
        file.write_bytes(_header(body) + b"\n" + body)


def _header(body: bytes) -> bytes:
    return f"multiform task index {_VERSION} {zlib.crc32(body):08x}".encode()


def _packed(index: FolderIndex) -> dict[str, Any]:
    """The records as columns, which load five times as fast as objects.

    Kind, tags and includes of files that define a single name are stored once for all files that share them;
    other files, and broken ones, are stored in full.
    """
    shapes: dict[tuple[Any, ...], int] = {}
    odd: dict[str, Any] = {}
    names, ids = [], []
    for file, record in index.files.items():
        name = record.names[0] if record.names else Name("", "task")
        if len(record.names) > 1 or name.attribute or name.about or record.fault is not None:
            odd[file] = [record.names, record.fault]
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


def _unpacked(content: dict[str, Any]) -> FolderIndex:
    shapes = [(kind, tuple(tags), tuple(included)) for kind, tags, included in content["shapes"][0]]
    columns = (content[column] for column in ("files", "sizes", "times", "names"))
    files = {}
    for file, size, time, name, shape in zip(*columns, content["shapes"][1], strict=True):
        kind, tags, included = shapes[shape]
        files[file] = Record((size, time), (Name(name, kind, tags),) if name else (), included)
    for file, (names, fault) in content["odd"].items():
        defined = tuple(Name(*name) for name in names)
        files[file] = files[file]._replace(names=defined, fault=None if fault is None else Fault(*fault))
    return FolderIndex(files, {file: (size, time) for file, (size, time) in content["included"].items()})
