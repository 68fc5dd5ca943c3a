"""Runs that are killed at any moment, also while they write, end with the results of one that is not."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Runs

pytestmark = pytest.mark.process

#: Keys of results that differ between any two runs.
CHANGING = ("date", "date_iso", "total_evaluation_time_seconds")
OUTPUT = ("--output_path", "out", "--log_samples", "--limit", "30")


def complete(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.name.startswith(("results_", "samples_")))


def contents(folder: Path) -> dict[str, Any]:
    """The files of a finished run by what their names begin with."""
    files: dict[str, Any] = {}
    for path in complete(folder):
        name = path.name.rpartition("_")[0]
        assert name not in files
        files[name] = path.read_text()
    results = json.loads(files["results"])
    return files | {"results": {key: value for key, value in results.items() if key not in CHANGING}}


def check_kills(runs: Runs, kills: int, seed: int) -> None:
    """Kill a run that goes on again and again, at moments from its start to beyond its end; compare with one alone."""
    rng = random.Random(seed)
    began = time.monotonic()
    runs.finish(*OUTPUT)
    length = time.monotonic() - began
    expected = contents(runs.folder / "out")
    asked = set(runs.asked())
    assert asked
    (runs.folder / "out").rename(runs.folder / "alone")
    (runs.folder / "answers.db").unlink()
    seen: list[str] = []
    killed = 0
    while killed < kills:
        process = runs.start(*OUTPUT)
        time.sleep(rng.uniform(0.2, 1.05) * length)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        killed += 1
        seen += runs.asked()
        if complete(runs.folder / "out") or rng.random() < 0.2:  # finished before it was killed: begin anew
            for path in complete(runs.folder / "out"):
                assert path.read_text().endswith("\n")
                path.unlink()
            (runs.folder / "answers.db").unlink(missing_ok=True)
            for rest in ("answers.db-wal", "answers.db-shm"):
                (runs.folder / rest).unlink(missing_ok=True)
    runs.finish(*OUTPUT)
    assert contents(runs.folder / "out") == expected
    assert not [path for path in (runs.folder / "out").rglob("*") if path.name.startswith(("partial_", "run_"))]
    assert set(seen) | set(runs.asked()) <= asked


def test_two_kills_change_nothing(runs: Runs) -> None:
    check_kills(runs, kills=2, seed=1)


@pytest.mark.slow
def test_twenty_five_kills_change_nothing(runs: Runs) -> None:
    check_kills(runs, kills=25, seed=2)
