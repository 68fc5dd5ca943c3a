"""What the tests of lm-eval's interface share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

#: Scripts of users, which are run and not collected.
collect_ignore_glob = ["scripts/*"]

SCRIPTS = Path(__file__).parent / "scripts"
QUESTIONS = [
    ("What do bees make?", ["honey", "milk", "paper"], 0),
    ("Which of these is a colour?", ["seven", "green", "table"], 1),
    ("What falls from clouds?", ["stones", "bread", "rain"], 2),
    ("How many legs has a spider?", ["eight", "six", "four"], 0),
    ("Where do fish live?", ["in trees", "in water", "in sand"], 1),
    ("What is frozen water called?", ["steam", "oil", "ice"], 2),
]
TASKS = {
    "animals": """\
task: animals
tag: nature
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS, train: ROWS}}
test_split: test
training_split: train
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 2.0}
""",
    "spelled": """\
task: spelled
tag: nature
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
test_split: test
output_type: generate_until
doc_to_text: "Q: {{question}} A:"
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 4, do_sample: false}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
""",
    "plain": """\
include: animals.yaml
task: plain
tag: null
doc_to_text: question
target_delimiter: ": "
""",
    "bare": """\
include: plain.yaml
task: bare
doc_to_text: ""
target_delimiter: ""
""",
    "choices": """\
group: choices
group_alias: all choices
task: [plain, bare]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: true}
metadata: {version: 1.0}
""",
    "both": """\
group: both
task: [animals, spelled]
metadata: {version: 1.0}
""",
}


def real_lm_eval() -> bool:
    """Whether lm-eval itself is installed."""
    return PathFinder.find_spec("lm_eval") is not None


needs_lm_eval = pytest.mark.skipif(not real_lm_eval(), reason="lm-eval is not installed: pip install lm-eval==0.4.13")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small tasks and their rows, in files that both harnesses read."""
    made = tmp_path_factory.mktemp("nature")
    rows = made / "rows.jsonl"
    columns = ("question", "choices", "answer")
    rows.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in QUESTIONS))
    for name, text in TASKS.items():
        (made / f"{name}.yaml").write_text(text.replace("ROWS", str(rows)))
    return made


@pytest.fixture
def config(folder: Path) -> dict[str, object]:
    """A task that is written as a dict."""
    return {
        "task": "own",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "rows.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "answer",
    }


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a user's script in a process of its own, on Multiform or on the real lm-eval, and gives what it prints."""

    def run_script(script: str, *arguments: str | Path, real: bool = False, blocked: bool = False) -> str:
        first = [str(SCRIPTS / script)] if real else ["-m", "multiform.compat.run", str(SCRIPTS / script)]
        home = tmp_path_factory.mktemp("home")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1",
                       "HF_DATASETS_CACHE": str(home), "HF_HOME": str(home)}  # fmt: skip
        if blocked:
            environment["PYTHONPATH"] = str(blocker(home))
        command = [sys.executable, *first, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_script


def blocker(folder: Path) -> Path:
    """A folder for PYTHONPATH in which Python finds, when it starts, code that hides an installed lm-eval."""
    (folder / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec.__func__\n"
        "def hiding(cls, name, path=None, target=None):\n"
        "    return None if name.partition('.')[0] == 'lm_eval' else find(cls, name, path, target)\n"
        "PathFinder.find_spec = classmethod(hiding)\n"
    )
    return folder
