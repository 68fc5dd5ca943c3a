"""Paths: the cache folder, whether a file exists, and names that are safe in a path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from multiform.hashing import sha256

#: Bytes of a name in a path; with a date and an ending it stays below the 255 that file systems allow.
_LONGEST_NAME = 180


def cache_root() -> Path:
    """The folder of what can be made again: ``$MULTIFORM_CACHE``, or below the user's cache folder."""
    if folder := os.environ.get("MULTIFORM_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "multiform"


def mirror_path(folders: str | Path | Sequence[str | Path] | None) -> Path | None:
    """Several mirrors as one path, separated as in the variable PATH; None where there is none."""
    if not folders:
        return None
    return Path(folders) if isinstance(folders, str | Path) else Path(os.pathsep.join(map(str, folders)))


def mirror_folders(mirror: Path) -> list[Path]:
    """The folders of a path like ``a:b``; the path of an existing folder is not split."""
    return [mirror] if is_dir(mirror) else [Path(part) for part in str(mirror).split(os.pathsep) if part]


def is_dir(path: Path) -> bool:
    """Whether there is a folder; a name that no file can have, such as one that is too long, is none."""
    return _holds(path.is_dir)


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have is none."""
    return _holds(path.is_file)


def sanitized(name: str) -> str:
    """A name that is safe in a path, of at most 180 bytes; ``@`` stays.

    >>> sanitized("org/model:1"), sanitized("arc_easy@mcq::gpqa"), sanitized("..")
    ('org__model__1', 'arc_easy@mcq__gpqa', '__')
    """
    safe = re.sub(r"[\x00-\x1f\x7f\s]", "_", re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name))
    safe = safe.encode("utf-8", "backslashreplace").decode("utf-8").replace("\\", "_")
    if not safe.strip("."):
        return "_" * len(safe)
    if len(safe.encode()) <= _LONGEST_NAME:
        return safe
    return safe.encode()[: _LONGEST_NAME - 9].decode("utf-8", "ignore") + "_" + sha256(name)[:8]


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except (OSError, ValueError):
        return False
