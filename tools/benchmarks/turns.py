"""Processes that take turns, so that all of them see the same of a machine that is not equally fast all the time."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TypeAlias

#: From when to when a process ran.
Spell: TypeAlias = tuple[float, float]


def take_turns(
    processes: Mapping[str, subprocess.Popen[bytes]], seconds: Mapping[str, float]
) -> dict[str, list[Spell]]:
    """Run processes to their end, only one of them at a time and each for so long at once; gives when each ran."""
    spells: dict[str, list[Spell]] = {name: [] for name in processes}
    for process in processes.values():
        process.send_signal(signal.SIGSTOP)
    try:
        while waiting := [name for name, process in processes.items() if process.poll() is None]:
            for name in waiting:
                began = monotonic()
                processes[name].send_signal(signal.SIGCONT)
                try:
                    processes[name].wait(seconds[name] if len(waiting) > 1 else None)
                except subprocess.TimeoutExpired:
                    processes[name].send_signal(signal.SIGSTOP)
                spells[name].append((began, monotonic()))
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    return spells


def time_within(spells: Sequence[Spell], began: float, ended: float) -> float:
    """How long a process ran between two points in time.

    >>> time_within([(0, 2), (4, 6), (8, 10)], 1, 5)
    2
    """
    return sum(max(0, min(stop, ended) - max(start, began)) for start, stop in spells)
