"""The index of a folder as it is kept between runs: one file, replaced as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiform.catalog.index.record import Fault, Name, Record
from multiform.catalog.index.stamps import Stamp
from multiform.paths import cache_root

#: Goes up with every change of what is kept or of what makes a name a task, so that older files are read no more.
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """The records of a folder's files, and the stamps of what these include."""

    files: dict[str, Record] = field(default_factory=dict)
    included: dict[str, Stamp] = field(default_factory=dict)


def kept_path(root: str) -> Path:
    """Where the index of a folder is kept."""
    return cache_root() / "tasks" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.index"


def load(root: str) -> Kept:
    """What was kept; nothing where there is no such file, or it is damaged or of another version."""
    try:
        header, _, body = kept_path(root).read_bytes().partition(b"\n")
        return _unpacked(json.loads(body)) if header == _header(body) else Kept()
    except (OSError, RuntimeError, ValueError, TypeError, LookupError):  # RuntimeError: there is no home folder
        return Kept()


def save(root: str, kept: Kept) -> None:
    """Keep the index. Of several processes that do so at once the last one wins: all have read the same files."""
    path = kept_path(root)
    body = json.dumps({"root": root, **_packed(kept)}, separators=(",", ":")).encode("ascii")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(_header(body) + b"\n" + body)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):  # it is there only where something went wrong
            temporary.unlink()


def _header(body: bytes) -> bytes:
    return f"multiform task index {_VERSION} {zlib.crc32(body):08x}".encode()


def _packed(kept: Kept) -> dict[str, Any]:
    """The records as columns, which JSON reads five times as fast as objects.

    Files that define one name share a table of what goes with it; others, and broken ones, are written out.
    """
    shapes: dict[tuple[Any, ...], int] = {}
    odd: dict[str, Any] = {}
    names, ids = [], []
    for file, record in kept.files.items():
        name = record.names[0] if record.names else Name("", "task")
        if len(record.names) > 1 or name.attribute is not None or record.fault is not None:
            odd[file] = [record.names, record.fault]
        names.append(name.name)
        ids.append(shapes.setdefault((name.kind, tuple(name.tags), tuple(record.included)), len(shapes)))
    return {
        "files": list(kept.files),
        "sizes": [record.stamp[0] for record in kept.files.values()],
        "times": [record.stamp[1] for record in kept.files.values()],
        "names": names,
        "shapes": [list(shapes), ids],
        "odd": odd,
        "included": kept.included,
    }


def _unpacked(content: dict[str, Any]) -> Kept:
    shapes = [(kind, tuple(tags), tuple(included)) for kind, tags, included in content["shapes"][0]]
    columns = (content[column] for column in ("files", "sizes", "times", "names"))
    files = {}
    for file, size, time, name, shape in zip(*columns, content["shapes"][1], strict=True):
        kind, tags, included = shapes[shape]
        files[file] = Record((size, time), (Name(name, kind, tags),) if name else (), included)
    for file, (names, fault) in content["odd"].items():
        made = tuple(Name(*name) for name in names)
        files[file] = files[file]._replace(names=made, fault=None if fault is None else Fault(*fault))
    return Kept(files, {file: (size, time) for file, (size, time) in content["included"].items()})
