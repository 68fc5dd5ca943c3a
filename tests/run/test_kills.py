"""Runs that are killed at any moment, also while they write, end with the results of one that is not."""

from __future__ import annotations

import json
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.run.conftest import Runs

pytestmark = pytest.mark.process

#: Keys of results that differ between any two runs.
CHANGING = ("date", "date_iso", "total_evaluation_time_seconds", "usage")
OUTPUT = ("--output_path", "out", "--log_samples", "--limit", "12")


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


@dataclass(frozen=True)
class Alone:
    """A run that nobody disturbs: its files, what it asked, and how many seconds it took."""

    contents: dict[str, Any]
    asked: set[str]
    seconds: float


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    runs = Runs(tmp_path_factory.mktemp("alone"))
    began = time.monotonic()
    runs.finish(*OUTPUT)
    return Alone(contents(runs.folder / "out"), set(runs.asked()), time.monotonic() - began)


def check_kills(runs: Runs, alone: Alone, kills: int, seed: int) -> None:
    """Kill a run that goes on again and again, at moments from its start to beyond its end."""
    rng = random.Random(seed)
    asked: set[str] = set()
    for _ in range(kills):
        process = runs.start(*OUTPUT)
        time.sleep(rng.uniform(0.2, 1.05) * alone.seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        asked |= set(runs.asked())
        if complete(runs.folder / "out") or rng.random() < 0.2:  # finished before it was killed: begin anew
            for path in complete(runs.folder / "out"):
                assert path.read_text().endswith("\n")
                path.unlink()
            for name in ("answers.db", "answers.db-wal", "answers.db-shm"):
                (runs.folder / name).unlink(missing_ok=True)
    runs.finish(*OUTPUT)
    check_finished(runs, alone, asked | set(runs.asked()))


def check_finished(runs: Runs, alone: Alone, asked: set[str]) -> None:
    """The files are those of a run that nobody disturbs, and nothing else was asked."""
    assert contents(runs.folder / "out") == alone.contents
    assert not [path for path in (runs.folder / "out").rglob("*") if path.name.startswith(("partial_", "run_"))]
    assert asked == alone.asked


#: Code that ends the process while it writes: half of a commit is done, or a file is written and not yet renamed.
WRITING = {
    "a commit": """
from multiform.run import database
insert, commits = database.insert, []
def die(connection, identity, rows, *, replace):
    commits.append(rows)
    if len(commits) < 3:
        return insert(connection, identity, rows, replace=replace)
    connection.execute("INSERT OR REPLACE INTO answers VALUES (1, ?, ?, 1, NULL)", rows[0][:2])
    os.kill(os.getpid(), signal.SIGKILL)
database.insert = die
""",
    **{
        name: f"""
import pathlib
rename = pathlib.Path.replace
def die(self, target):
    if pathlib.Path(target).name.startswith("{name}_"):
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
pathlib.Path.replace = die
"""
        for name in ("run", "results", "samples")
    },
}


@pytest.mark.parametrize("what", list(WRITING))
def test_a_kill_while_it_writes_changes_nothing(what: str, runs: Runs, alone: Alone) -> None:
    code = (runs.folder / "slow.py").read_text().replace("sys.exit(", f"import signal\n{WRITING[what]}\nsys.exit(")
    (runs.folder / "dying.py").write_text(code)
    process = runs.start(*OUTPUT, script="dying.py")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    first = runs.asked()
    for path in complete(runs.folder / "out"):
        path.unlink()
    runs.finish(*OUTPUT)
    again = runs.asked()
    assert len(set(first) & set(again)) <= 20  # what came in the tenth of a second before
    check_finished(runs, alone, set(first) | set(again))


def test_two_kills_change_nothing(runs: Runs, alone: Alone) -> None:
    check_kills(runs, alone, kills=2, seed=1)


@pytest.mark.slow
def test_twenty_five_kills_change_nothing(runs: Runs, alone: Alone) -> None:
    check_kills(runs, alone, kills=25, seed=2)
