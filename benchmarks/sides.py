"""Runs a side in a process of its own, so that its memory and imports are its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).parent.parent
NAMES = ("multiform", "lm-eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all measurements share."""

    mirror: Path
    model: Path
    threads: int
    #: Few documents, and many.
    docs: tuple[int, int]
    short: bool = False

    def run(self, job: str, side: str, **details: Any) -> dict[str, Any]:
        """Do a job on a side and give back what it measured."""
        with tempfile.TemporaryDirectory() as folder:
            given, result = Path(folder) / "job.json", Path(folder) / "result.json"
            shared = {"model": str(self.model), "mirror": str(self.mirror)}
            content = {"job": job, "side": side, "threads": self.threads, **shared, **details}
            given.write_text(json.dumps(content), encoding="utf-8")
            whole = self._process([sys.executable, "-m", "benchmarks.child", str(given), str(result)], folder)
            made: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            return {**made, "process_cpu": whole["cpu"]}

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
        env = {
            **os.environ,
            "OMP_NUM_THREADS": str(self.threads),
            # Threads that wait do not count as work, on a machine that has other things to do.
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "MULTIFORM_DATASET_MIRROR": str(self.mirror),
            "MULTIFORM_STORE": str(store or Path(folder) / "answers.db"),
            **(own or {}),
        }
        before, started = _children_cpu(), monotonic()
        with log.open("w") as file:
            done = subprocess.run(argv, cwd=ROOT, env=env, stdout=file, stderr=file, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(argv)} failed:\n{log.read_text()[-3000:]}")
        return {"cpu": _children_cpu() - before, "wall": monotonic() - started}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
