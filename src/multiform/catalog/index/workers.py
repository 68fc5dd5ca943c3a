"""Reading many files at once, in processes of their own where that is safe and worth it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping

from multiform.catalog.index.kept import Kept
from multiform.catalog.index.reader import Reader
from multiform.catalog.index.stamps import UNSURE, Stamp

#: So many files are read in the time that another process needs to begin.
_WORTH_A_PROCESS = 500
_CHUNKS_PER_WORKER = 4


def read_files(root: str, files: Mapping[str, Stamp]) -> Kept:
    """The records of the files and the stamps of what they include."""
    workers = min(_processors(), len(files) // _WORTH_A_PROCESS)
    return _read(root, files) if workers < 2 or not _may_fork() else _read_at_once(root, files, workers)


def _read_at_once(root: str, files: Mapping[str, Stamp], workers: int) -> Kept:
    # Imported here, as the index that is kept is mostly up to date.
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    names = list(files)
    size = -(-len(names) // (workers * _CHUNKS_PER_WORKER))  # neighbours stay together: they include the same files
    chunks = [{name: files[name] for name in names[start : start + size]} for start in range(0, len(names), size)]
    try:
        with ProcessPoolExecutor(workers, get_context("fork"), initializer=_leave_interrupts_to_the_parent) as pool:
            return joined(pool.map(_read, [root] * len(chunks), chunks))
    except (OSError, BrokenProcessPool):  # no more processes are to be had, so this one does it all
        return _read(root, files)


def _read(root: str, files: Mapping[str, Stamp]) -> Kept:
    reader = Reader(root)
    return Kept({file: reader.read(file, stamp) for file, stamp in files.items()}, reader.included)


def joined(parts: Iterable[Kept]) -> Kept:
    """All parts as one; what they include may have changed between the reading of two of them."""
    whole = Kept()
    for part in parts:
        whole.files.update(part.files)
        for file, stamp in part.included.items():
            if whole.included.setdefault(file, stamp) != stamp:
                whole.included[file] = UNSURE
    return whole


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _may_fork() -> bool:
    """Whether a copy of this process is sure to work: on Linux, where it has one thread and may have children."""
    from multiprocessing import current_process

    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return False
    return sys.platform == "linux" and threads == 1 and not current_process().daemon


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
