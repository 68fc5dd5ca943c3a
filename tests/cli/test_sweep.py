"""`multiform sweep`: a matrix of runs, each model loaded once, nothing asked twice, one leaderboard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.models import register_model
from multiform.models.dummy import DummyModel
from multiform.report.runs import Runs
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
    assert board["forms"] == ["t@cloze", "t@cloze · 1-shot", "t@mcqa", "t@mcqa · 1-shot"]
    assert all(cell["n"] == 4 for row in board["cells"] for cell in row)
    assert [note for note in loads if note.startswith("load")] == ["load seed 0", "load seed 3"]
    assert len(folder.results()) == 4


def test_the_viewer_has_the_labels_of_the_sweep(folder: Folder, loads: list[str]) -> None:
    assert folder.run("sweep", "sweep.yaml").code == 0
    runs = Runs(folder.path / "out")
    assert runs.board(None)["models"] == ["counting", "other seed"]
    assert {line["model"] for line in runs.run_lines()} == {"counting", "other seed"}


def test_names_may_be_separated_by_commas_as_on_the_command_line(folder: Folder, loads: list[str]) -> None:
    folder.task("task: u\nfewshot_split: test\n", name="other.yaml")
    changed = SWEEP.replace("[task.yaml]", "task.yaml, other.yaml@mcqa").replace("[mcqa, cloze]", "mcqa,cloze")
    folder.write({"sweep.yaml": changed.replace("[0, 1]", "0")})
    board = folder.run("sweep", "sweep.yaml", "--json").json()
    assert board["forms"] == ["t@cloze", "t@mcqa", "u@mcqa"]


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
    assert board["cells"][1][board["forms"].index("t@mcqa · 1-shot")]["value"] == single


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
        (("[0, 1]", "[]"), "sweep.yaml:8: the sweep names no num_fewshot; give it a list, or leave it out"),
        (("[0, 1]", "[1, 0, 1]"), "sweep.yaml:8: num_fewshot has 1 twice; leave one of them out"),
        (("[mcqa, cloze]", "[]"), "sweep.yaml:7: the sweep names no formats"),
        (("[mcqa, cloze]", "{mcqa: cloze}"), "sweep.yaml:7: expected names, got {'mcqa': 'cloze'}"),
        (("[mcqa, cloze]", "[mcqa, mcqa]"), "sweep.yaml:7: formats has 'mcqa' twice"),
        (("[mcqa, cloze]", "[mcqa, clozy]"), "sweep.yaml:6: t@clozy: unknown format 'clozy'"),
        (("[task.yaml]", "[task.yaml, task.yaml]"), "sweep.yaml:6: tasks has 'task.yaml' twice"),
        (("[task.yaml]", "[tusk]"), "sweep.yaml:6: tusk@mcqa+cloze: no task, tag or file 'tusk'"),
        (("[task.yaml]", "[[task.yaml]]"), "sweep.yaml:6: expected names, got ['task.yaml']"),
        (("- counting", "- countin"), "sweep.yaml:4: unknown model 'countin'; did you mean 'counting'?"),
        (("- counting", "- {}"), "sweep.yaml:4: expected a model, got {}"),
        (("- counting", "- {model: [counting]}"), "sweep.yaml:4: expected the name of a model, got ['counting']"),
        (("label: other seed", "label: [x]"), "sweep.yaml:5: expected a name, got ['x']"),
        (("seed: 3}, ", "}, "), "the models 'counting' and 'other seed' are the same"),
        (("output_path: out", "limit: few"), "sweep.yaml:2: limit: expected a whole number of 1 or more"),
        (("output_path: out", "executor: spark"), "sweep.yaml:2: executor: expected one of local, ray, got 'spark'"),
        (("output_path: out", "workers: 2"), "sweep.yaml:2: workers: there are no workers without Ray"),
        (("seed: 3}, ", "seed: 3}, limit: few, "), "sweep.yaml:5: limit: expected a whole number of 1 or more"),
        (("output_path: out", "gen_kwargs: {stop: 1.5}"), "sweep.yaml:2: gen_kwargs: "),
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
    assert (ran.code, ran.errors) == (2, ["error: --only: the sweep has no model 2; give 0 to 1"])


def test_ray_that_is_not_installed_is_said_before_other_models_run(
    folder: Folder, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    folder.write({"sweep.yaml": SWEEP.replace("label: other seed", "label: other seed, executor: ray")})
    ran = folder.run("sweep", "sweep.yaml")
    assert (ran.code, len(ran.errors), loads) == (2, 1, [])
    assert "sweep.yaml:5: --executor ray: Ray is not installed" in ran.errors[0]


def test_a_leaderboard_of_what_is_stored_asks_nothing(folder: Folder, loads: list[str]) -> None:
    assert folder.run("sweep", "sweep.yaml", "--only", "0").code == 0
    asked = [note for note in loads if note.startswith("ask")]
    ran = folder.run("sweep", "sweep.yaml", "--cached")
    assert ran.code == 1
    assert "error: other seed, 0-shot: " in ran.err
    assert "24 responses are not stored; run the same command without --cached" in ran.err
    assert ran.out.splitlines()[0].split() == ["form", "metric", "n", "counting"]
    assert [note for note in loads if note.startswith("ask")] == asked


def test_a_folder_whose_name_would_run_in_a_script_is_refused(folder: Folder) -> None:
    folder.task("fewshot_split: test\n")
    folder.write({"sweep.yaml": SWEEP.replace("counting", "dummy")})
    ran = folder.run("sweep", "sweep.yaml", "--slurm", "jobs\ntouch here")
    assert ran.code == 2
    assert "has characters that a script cannot have" in ran.err
    assert not (folder.path / "jobs\ntouch here").exists()


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
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def job(script: str, number: int, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", f"jobs/{script}"],
            env={**env, "SLURM_ARRAY_TASK_ID": str(number), "SLURM_TMPDIR": str(scratch)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert "no job has left its responses" in job("merge.sbatch", 0, code=1)
    assert "running " in job("array.sbatch", 0)
    assert "responses are not stored" in job("merge.sbatch", 0, code=1)  # and nothing is asked where it runs
    assert "running " in job("array.sbatch", 1)
    (tmp_path / "jobs" / "stores" / "all.db").unlink()
    assert sorted(file.name for file in (tmp_path / "jobs" / "stores").iterdir()) == ["0.db", "1.db"]
    merged = job("merge.sbatch", 0)
    assert "other seed" in merged
    assert "running " not in merged
    assert "#SBATCH --array=0-1" in (tmp_path / "jobs" / "array.sbatch").read_text()
    assert list(scratch.iterdir()) == []
    shutil.rmtree(tmp_path / "jobs" / "stores")
    assert "the responses could not be copied" in job("array.sbatch", 0, code=1)
    [kept] = scratch.glob("*/answers.db")
    assert kept.is_file()
