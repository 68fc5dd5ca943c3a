"""Runs sides in processes of their own, so that memory and imports are theirs alone.

Both may take turns, so that they see the same of a machine that is not equally fast all the time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from tools import ROOT

NAMES = ("multiform", "lm-eval")
#: Seconds of a turn, where sides take turns.
TURN = 2.0
#: From when to when a process ran.
Spell: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all measurements share."""

    #: Few documents, and many.
    docs: tuple[int, int]
    mirror: Path
    model: Path
    threads: int
    short: bool = False

    def run(self, job: str, side: str, **details: Any) -> dict[str, Any]:
        """Do a job on a side and give back what it measured."""
        with tempfile.TemporaryDirectory() as folder:
            argv = self._child(job, side, Path(folder), details)
            whole = self._process(argv, folder)
            return {**_result(Path(folder), side), "process_cpu": whole["cpu"]}

    def run_in_turns(self, job: str, share: float, **details: Any) -> dict[str, dict[str, Any]]:
        """Do a job on both sides, which take turns; those of lm-eval are `share` times as long."""
        with tempfile.TemporaryDirectory() as name, ExitStack() as files:
            folder = Path(name)
            logs = {side: files.enter_context((folder / f"{side}.txt").open("w+")) for side in NAMES}
            processes = {
                side: subprocess.Popen(
                    self._child(job, side, folder, details),
                    cwd=ROOT,
                    env=self._environment(folder),
                    stdout=log,
                    stderr=log,
                )
                for side, log in logs.items()
            }
            spells = take_turns(processes, {"multiform": TURN, "lm-eval": TURN * share})
            for side, process in processes.items():
                if process.returncode != 0:
                    logs[side].seek(0)
                    raise SystemExit(f"{side} failed:\n{logs[side].read()[-3000:]}")
            made = {side: _result(folder, side) for side in NAMES}
        return {
            side: {**found, "wall": time_within(spells[side], found["began"], found["ended"])}
            for side, found in made.items()
        }

    def _child(self, job: str, side: str, folder: Path, details: Mapping[str, Any]) -> list[str]:
        """The command that does a job on a side."""
        given, result = folder / f"{side}-job.json", folder / f"{side}-result.json"
        shared = {"model": str(self.model), "mirror": str(self.mirror)}
        content = {"job": job, "side": side, "threads": self.threads, **shared, **details}
        given.write_text(json.dumps(content), encoding="utf-8")
        return [sys.executable, "-m", "tools.benchmarks.child", str(given), str(result)]

    def command(self, *argv: str, store: Path | None = None, cache: Path | None = None) -> dict[str, float]:
        """CPU and wall time of a command, which finds stored answers only where a store is named.

        What it can make again is kept in the user's cache, or in the one that is named.
        """
        with tempfile.TemporaryDirectory() as folder:
            own = {} if cache is None else {"MULTIFORM_CACHE": str(cache)}
            return self._process([sys.executable, *argv], folder, store, own)

    def _process(
        self, argv: list[str], folder: str, store: Path | None = None, own: Mapping[str, str] | None = None
    ) -> dict[str, float]:
        log = Path(folder) / "log.txt"
        env = {**self._environment(Path(folder), store), **(own or {})}
        before, started = _children_cpu(), monotonic()
        with log.open("w") as file:
            done = subprocess.run(argv, cwd=ROOT, env=env, stdout=file, stderr=file, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(argv)} failed:\n{log.read_text()[-3000:]}")
        return {"cpu": _children_cpu() - before, "wall": monotonic() - started}

    def _environment(self, folder: Path, store: Path | None = None) -> dict[str, str]:
        return {
            **os.environ,
            "OMP_NUM_THREADS": str(self.threads),
            # Threads that wait do not count as work, on a machine that has other things to do.
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            # Compiled once, as in an installation.
            "PYTHONDONTWRITEBYTECODE": "",
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "MULTIFORM_DATASET_MIRROR": str(self.mirror),
            "MULTIFORM_STORE": str(store or folder / "answers.db"),
        }


def _result(folder: Path, side: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / f"{side}-result.json").read_text(encoding="utf-8"))
    return made


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
