"""eval-framework's own benchmarks run here, on made-up rows.

Set MULTIFORM_EVAL_FRAMEWORK to the folder `src/eval_framework/tasks/benchmarks` of a clone, or have the package
installed; none of it is part of this project.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform import compat
from multiform.errors import MultiformError
from multiform.imports import eval_framework_finder as finder
from multiform.tasks.python_tasks import task_classes, task_classes_in
from tests.parity.eval_framework_rows import write_rows

#: Why some modules are not scored, by what the error says.
REFUSED = {
    "runs the model's code": ("humaneval", "mbpp", "multipl_e"),
    "lingua-language-detector": ("ifeval", "math_reasoning"),
    "is none of the completions": ("csqa",),
    "No module named 'llm_sandbox'": ("bigcodebench",),
}
#: Modules that download their rows by themselves.
DOWNLOADING = ("social_iqa", "squad")
#: Names of datasets that a class's own code asks for, where SUBJECTS are something else.
NAMED: dict[str, list[str | None]] = {"bigcodebench": [None], "mmlu_pro": [None], "global_mmlu": ["de", "fr"]}


def benchmarks() -> Path | None:
    named = os.environ.get("MULTIFORM_EVAL_FRAMEWORK")
    real = finder.real_folder()
    return Path(named) if named else real / "tasks" / "benchmarks" if real else None


def files() -> list[Path]:
    folder = benchmarks()
    return sorted(file for file in folder.glob("*.py") if file.stem != "__init__") if folder else []


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(task_classes, "_entries", dict(task_classes._entries))
    monkeypatch.setattr(finder, "folders", set(finder.folders))
    yield
    compat.uninstall("eval_framework")


@pytest.mark.skipif(not files(), reason="no benchmarks of eval-framework here")
@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_a_benchmark_module_runs_on_made_up_rows(file, tmp_path, monkeypatch):
    compat.install("eval_framework", instead=True)
    for defined in task_classes_in(file):
        try:
            kind: Any = defined.load()
        except MultiformError as error:
            if not _is_expected(error, file.stem):
                raise
            continue
        _write(kind, file.stem, tmp_path)
        if file.stem in DOWNLOADING:
            monkeypatch.setattr(kind, "_load_dataset", multiform.BaseTask._load_dataset)
            monkeypatch.setattr(kind, "_load_hf_dataset", multiform.BaseTask._load_hf_dataset)
        task = kind()
        task.SUBJECTS = kind.SUBJECTS[:2]
        try:
            results = multiform.evaluate(model="dummy", tasks=[task], limit=2, dataset_mirror=tmp_path)
        except MultiformError as error:
            if not _is_expected(error, file.stem):
                raise
            continue
        assert all(len(results[name]) > 1 for name in task.member_names()), kind.__name__


def _is_expected(error: MultiformError, module: str) -> bool:
    return any(text in str(error) and module in modules for text, modules in REFUSED.items())


def _write(kind, module: str, folder: Path) -> None:
    splits = {split for split in (kind.SAMPLE_SPLIT, kind.FEWSHOT_SPLIT) if split}
    names = [None if subject == "no_subject" else str(subject) for subject in kind.SUBJECTS[:2]]
    if module == "multipl_e":
        names = [f"{kind.MULTIPL_E_DATASET_PREFIX}-{kind.MULTIPL_E_LANGUAGE}"]
    for name in NAMED.get(module, names):
        write_rows(folder, kind.DATASET_PATH, name, splits)
