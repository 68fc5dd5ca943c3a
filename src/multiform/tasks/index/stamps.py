"""Stamps of files: size and modification time, by which a change is noticed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

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


def settled(stamp: Stamp, started: int, ended: int) -> Stamp:
    """The stamp to cache for a file that was read between two times.

    A file that was modified at about that time may be modified once more without a new stamp.
    """
    return UNSURE if started - _TICK < stamp[1] < ended + _TICK else stamp
