"""`multiform sweep`: a matrix of runs, each model loaded once, nothing asked twice, one leaderboard."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.models import register_model
from multiform.models.dummy import DummyModel
from multiform.requests import LLOutput, LoglikelihoodRequest, Response
from tests.cli.conftest import Folder

SWEEP = """
output_path: out
models:
  - counting
  - {model: counting, model_args: {seed: 3}, label: other seed}
tasks: [task.yaml]
formats: [mcqa, cloze]
num_fewshot: [0, 1]
"""


@pytest.fixture
def loads(folder: Folder) -> list[str]:
    """What models were loaded and asked, by a model that notes it."""
    noted: list[str] = []

    @register_model("counting")
    class Counting(DummyModel):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            noted.append(f"load seed {self.seed}")

        def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
            noted.append(f"ask {len(requests)}")
            return super().loglikelihood(requests)

    folder.task("fewshot_split: test\n")
    folder.write({"sweep.yaml": SWEEP})
    return noted


def test_each_model_is_loaded_once_and_the_leaderboard_has_every_cell(folder: Folder, loads: list[str]) -> None:
    ran = folder.run("sweep", "sweep.yaml", "--json")
    assert ran.code == 0, ran.err
    board = ran.json()
    assert board["models"] == ["counting", "other seed"]
    assert board["forms"] == ["t@cloze 0-shot", "t@cloze 1-shot", "t@mcqa 0-shot", "t@mcqa 1-shot"]
    assert all(cell["n"] == 4 for row in board["cells"] for cell in row)
    assert [note for note in loads if note.startswith("load")] == ["load seed 0", "load seed 3"]
    assert len(folder.results()) == 4


def test_a_sweep_that_is_started_again_asks_nothing(folder: Folder, loads: list[str]) -> None:
    first = folder.run("sweep", "sweep.yaml").out
    asked = [note for note in loads if note.startswith("ask")]
    assert len(asked) == 4
    assert folder.run("sweep", "sweep.yaml").out == first
    assert [note for note in loads if note.startswith("ask")] == asked


def test_the_scores_are_those_of_single_runs(folder: Folder, loads: list[str]) -> None:
    board = folder.run("sweep", "sweep.yaml", "--json").json()
    alone = ("--model", "counting", "--model_args", "seed=3", "--num_fewshot", "1", "--no_cache", "--json")
    single = folder.run("run", "--tasks", "task.yaml@mcqa", *alone).json()["results"]["t@mcqa"]["acc,none"]
    assert board["cells"][1][board["forms"].index("t@mcqa 1-shot")]["value"] == single


def test_a_run_that_fails_does_not_stop_the_others(folder: Folder, loads: list[str]) -> None:
    folder.write({"sweep.yaml": SWEEP.replace("  - counting\n", "  - {model: counting, model_args: {sead: 1}}\n")})
    ran = folder.run("sweep", "sweep.yaml")
    assert ran.code == 2
    assert "other seed" in ran.out
    assert "has no argument 'sead'" in ran.err
    assert "2 of the runs failed" in ran.errors[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tasks: [task.yaml]", "tasks: []"), "the sweep names no tasks"),
        (("formats:", "format:"), "sweep.yaml:7: unknown key 'format'; did you mean 'formats'?"),
        (("label: other seed", "label: counting"), "two models are called 'counting'; give one a label:"),
        (("[0, 1]", "[0, few]"), "sweep.yaml:8: expected whole numbers of 0 or more, got 'few'"),
        (("[0, 1]", "[]"), "the sweep names no num_fewshot"),
        (("output_path: out", "progress: true"), "the sweep sets 'progress' itself"),
        (("- counting", "- 5"), "expected a model, got 5"),
    ],
)
def test_a_wrong_file_is_one_message(folder: Folder, loads: list[str], change: tuple[str, str], message: str) -> None:
    folder.write({"sweep.yaml": SWEEP.replace(*change)})
    ran = folder.run("sweep", "sweep.yaml")
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert message in ran.errors[0]
    assert loads == []


def test_only_one_model_of_those_that_there_are(folder: Folder, loads: list[str]) -> None:
    assert folder.run("sweep", "sweep.yaml", "--only", "1", "--json").json()["models"] == ["other seed"]
    ran = folder.run("sweep", "sweep.yaml", "--only", "2")
    assert (ran.code, ran.errors) == (2, ["error: --only: the sweep has 2 models; give 0 to 1"])


@pytest.mark.process
def test_slurm_jobs_have_stores_of_their_own_which_are_merged(folder: Folder, tmp_path: Path) -> None:
    """The scripts run by bash, with the variables that SLURM sets."""
    folder.task("fewshot_split: test\n")
    folder.write({"sweep.yaml": SWEEP.replace("counting", "dummy").replace("[0, 1]", "[0]")})
    program = tmp_path / "bin" / "multiform"
    program.parent.mkdir()
    program.write_text(f'#!/bin/bash\nexec {sys.executable} -m multiform.cli.main "$@"\n')
    program.chmod(0o755)
    assert folder.run("sweep", "sweep.yaml", "--slurm", "jobs").code == 0
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def job(script: str, number: int) -> str:
        done = subprocess.run(
            ["bash", f"jobs/{script}"],
            env={**env, "SLURM_ARRAY_TASK_ID": str(number)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    for number in range(2):
        assert "asking" in job("array.sbatch", number)
    assert sorted(file.name for file in (tmp_path / "jobs" / "stores").iterdir()) == ["0.db", "1.db"]
    merged = job("merge.sbatch", 0)
    assert "other seed" in merged
    assert "asking" not in merged
    assert "#SBATCH --array=0-1" in (tmp_path / "jobs" / "array.sbatch").read_text()
