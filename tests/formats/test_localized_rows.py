"""Prompts in the language of real rows: one row for each language of the mirror, in all five formats."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiform.errors import MultiformError
from multiform.formats.localization import task_language
from multiform.forms import Task
from multiform.paths import mirror_path
from multiform.tasks.config import TaskConfig
from multiform.tasks.manager import TaskManager

FORMATS = ("mcqa", "cloze", "hybrid", "generate", "cot")
GOLDEN = Path(__file__).parents[1] / "golden" / "languages" / "real_rows.txt"
SHARED = Path(__file__).parents[3] / "shared"


def tasks_by_language(manager: TaskManager) -> dict[str, list[TaskConfig]]:
    """The tasks of the library whose rows are in the mirror, by the language that they state; English is no test."""
    found: dict[str, list[TaskConfig]] = {}
    for name, entry in sorted(manager.index.entries.items()):
        if entry.path.parent.name != "languages" or entry.kind != "group":
            continue
        for config in manager.load(name):
            rows = SHARED / "rows" / str(config.dataset_path) / str(config.dataset_name or "default")
            code = task_language(config.metadata)
            if code not in (None, "en") and rows.is_dir():
                found.setdefault(str(code), []).append(config)
    return found


def golden_lines() -> Iterator[str]:
    """The hash of the prompt of the first row, for each language and format: rows are not for a file of the project."""
    manager, mirror = TaskManager(), mirror_path([SHARED / "rows"])
    for code, configs in sorted(tasks_by_language(manager).items()):
        for label in FORMATS:
            for config in configs:  # the first task that has what the format needs
                name = f"{config.base_name}@{label}:native"
                try:
                    form = Task.from_config(manager.load(name)[0], dataset_mirror=mirror).form
                    prompt = form.sample(0, form.eval_docs[0]).prompt
                except MultiformError:
                    continue
                yield f"{code} {name} {hashlib.sha256(prompt.encode()).hexdigest()[:16]}"
                break


def test_prompts_over_real_rows_are_those_of_the_golden_file() -> None:
    if not (SHARED / "rows").is_dir():
        pytest.skip("the rows of the benchmarks are not here")
    lines = list(golden_lines())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
