"""Paths: the cache folder, files that are safe to read, files that are replaced as a whole, and names that are safe."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from multiform.errors import MultiformError
from multiform.hashing import sha256

#: Bytes of a name in a path; with a date and an ending it stays below the 255 that file systems allow.
_LONGEST_NAME = 180


def cache_root() -> Path:
    """The folder of what can be made again: ``$MULTIFORM_CACHE``, or below the user's cache folder."""
    if folder := os.environ.get("MULTIFORM_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "multiform"


def mirror_path(folders: str | Path | Sequence[str | Path] | None) -> Path | None:
    """Several mirrors as one path, separated as in the variable PATH; None if there is none."""
    if not folders:
        return None
    return Path(folders) if isinstance(folders, str | Path) else Path(os.pathsep.join(map(str, folders)))


def mirror_folders(mirror: Path) -> list[Path]:
    """The folders of a path like ``a:b``; the path of an existing folder is not split."""
    return [mirror] if is_dir(mirror) else [Path(part) for part in str(mirror).split(os.pathsep) if part]


def is_dir(path: Path) -> bool:
    """Whether there is a folder; unlike `Path.is_dir`, a name that no file can have, such as a long one, is none."""
    return os.path.isdir(path)


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have is none."""
    return os.path.isfile(path)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` for the block to write, which replaces `path` unless the block fails.

    All files but logs are written in this way: if the disk is full or the process is killed, `path` stays as it was.
    """
    if path.exists() and not path.is_file():  # a pipe or device, such as /dev/stdout, cannot be replaced
        yield path
        return
    path = Path(os.path.realpath(path))  # a link stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{secrets.token_hex(6)}{path.suffix}")
    try:
        yield partial
        if path.exists():
            shutil.copymode(path, partial)
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):  # there is one only after a failure
            partial.unlink(missing_ok=True)


@contextmanager
def replace_output(path: Path) -> Iterator[Path]:
    """`replace_file` for a file that the user asked for: what keeps it from being written is reported."""
    try:
        with replace_file(path) as partial:
            yield partial
    except OSError as error:
        hint = "name a file in it" if path.is_dir() else "free some space, or choose a folder that can be written"
        raise MultiformError(f"could not be written: {error.strerror or error}", where=str(path), hint=hint) from error


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


def safe_name(name: str) -> str:
    """A name that is safe in a path, of at most 180 bytes; ``@`` stays.

    >>> safe_name("org/model:1"), safe_name("arc_easy@mcq::gpqa"), safe_name("..")
    ('org__model__1', 'arc_easy@mcq__gpqa', '__')
    """
    safe = re.sub(r"[\x00-\x1f\x7f\s]", "_", re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name))
    safe = safe.encode("utf-8", "backslashreplace").decode("utf-8").replace("\\", "_")
    if not safe.strip("."):
        return "_" * len(safe)
    if len(safe.encode()) <= _LONGEST_NAME:
        return safe
    return safe.encode()[: _LONGEST_NAME - 9].decode("utf-8", "ignore") + "_" + sha256(name)[:8]


def display(path: Path) -> str:
    """The path for a message: relative to the working directory if it is below that."""
    text, working_folder = str(path), os.getcwd()
    return "." if text == working_folder else text.removeprefix(os.path.join(working_folder, ""))
