"""Paths: the cache folder, files that are safe to read, and names that are safe in a path."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from multiform.hashing import sha256

#: Bytes of a name in a path; with a date and an ending it stays below the 255 that file systems allow.
_LONGEST_NAME = 180


def cache_root() -> Path:
    """The folder of what can be made again: ``$MULTIFORM_CACHE``, or below the user's cache folder."""
    if folder := os.environ.get("MULTIFORM_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "multiform"


def is_dir(path: Path) -> bool:
    """Whether there is a folder; a name that no file can have, such as one that is too long, is none."""
    return _holds(path.is_dir)


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have is none."""
    return _holds(path.is_file)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; a pipe, a device or a socket, which may never end, is an OSError.

    Files of the system that are computed when they are read, such as ``/proc/kmsg``, say that they are empty, and count
    as such.
    """
    # Opening a pipe waits for somebody who writes to it, unless it is told not to wait.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size > 0:
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "a pipe or device, not a file", str(path))
    return io.BytesIO()


def read_file(path: Path) -> bytes:
    """The content of a regular file."""
    with open_file(path) as file:
        return file.read()


def resolve(path: Path) -> Path:
    """The path without links; a name that no file can have, or a link to itself, stays as it is, for reading to say."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path


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
