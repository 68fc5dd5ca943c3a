"""Stamps of files: the size and the time by which a change is noticed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

#: The size of a file and when it was last written, in nanoseconds.
Stamp = tuple[int, int]

ABSENT: Stamp = (-1, 0)
#: The stamp of what may yet change unnoticed; no file has it, so it is read again.
UNSURE: Stamp = (-2, 0)

_ENDINGS = (".yaml", ".py")
_IGNORED = ("__pycache__", ".ipynb_checkpoints")
#: The coarsest clock of a file system, in nanoseconds: two writes so close together may have one time.
_TICK = 2_000_000_000


def scan(folder: str) -> dict[str, Stamp]:
    """The task files below a folder, in the order of their names; linked folders are not entered."""
    return dict(sorted(_below(folder, "")))


def _below(folder: str, prefix: str) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(folder) as found:
            inside = list(found)
    except OSError:  # a folder that may not be read, or is gone by now, has no tasks for us
        return
    for one in inside:
        if one.is_dir(follow_symlinks=False):
            if one.name not in _IGNORED:
                yield from _below(one.path, f"{prefix}{one.name}/")
        elif one.name.endswith(_ENDINGS):
            with contextlib.suppress(OSError):  # a link to nowhere or to itself
                status = one.stat()
                if stat.S_ISREG(status.st_mode):
                    yield prefix + one.name, (status.st_size, status.st_mtime_ns)


def stamp_of(path: str) -> Stamp:
    """The stamp of one file or folder; a folder's changes when there is another file in it, or one less."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return status.st_size, status.st_mtime_ns


def settled(stamp: Stamp, began: int, ended: int) -> Stamp:
    """The stamp to keep of a file that was read between two times.

    One that was written about then might be written once more and have the same stamp.
    """
    return UNSURE if began - _TICK < stamp[1] < ended + _TICK else stamp
