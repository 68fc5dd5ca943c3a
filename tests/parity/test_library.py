"""The library's tasks in lm-eval's form give the requests that lm-eval's own tasks give, byte for byte."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import Task, TaskManager
from multiform.paths import mirror_folders
from tools.parity import coverage, library, ours, theirs
from tools.parity.compare import FAILS, LEAK, Setting

pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DOCS = 3
ZERO_SHOT = Setting(0, chat=False)


@pytest.fixture(scope="module")
def pairs(lm_eval_tasks) -> list[library.Pair]:
    missing = [str(folder) for folder in mirror_folders(library.MIRROR) if not folder.is_dir()]
    if missing:
        pytest.skip(f"no benchmark rows at {', '.join(missing)}")
    return [pair for pair in library.pairs(every=True) if library.has_rows(pair.config)]


def test_requests_are_those_of_lm_eval(pairs: list[library.Pair]):
    done = [library.compare_pair(pair, DOCS) for pair in pairs]
    reasons = collections.Counter(one.reason for result in done for one in result.differences)
    print(f"{len(done)} tasks, {sum(one.docs for one in done)} documents, {sum(one.requests for one in done)} requests")
    assert [(result.task, result.unexplained[0]) for result in done if result.unexplained] == []
    assert set(reasons) <= {LEAK, FAILS}
    assert len(done) >= 720


def test_every_task_of_lm_eval_with_rows_has_a_form_or_a_reason_to_have_none(pairs: list[library.Pair]):
    tasks = list(coverage.covered())
    assert [task for task in tasks if task.form is None and task.reason is None] == []
    assert sum(task.form is not None for task in tasks) >= 660


def test_the_fields_of_lm_eval_are_together_a_language(pairs: list[library.Pair]):
    names = [name for name in library.lm_eval_tasks() if name.startswith("global_mmlu_en_")]
    [config] = TaskManager().load("global_mmlu_en@lm-eval")
    asked = ours.requests_of(Task.from_config(config, dataset_mirror=library.MIRROR), ZERO_SHOT, 1000, None).docs
    fields = [theirs.load_tasks([name], library.MIRROR, [library.lm_eval_tasks()[name].path.parent]) for name in names]
    built = [theirs.built(tasks[name], ZERO_SHOT, 1000, None) for name, tasks in zip(names, fields, strict=True)]
    assert sorted(map(str, asked)) == sorted(str(doc) for field in built for doc in field.docs)
    assert len(asked) == 200


def test_a_changed_prompt_is_noticed(pairs: list[library.Pair]):
    [pair] = [pair for pair in pairs if pair.lm_eval == "piqa"]
    changed = pair.config.replace(doc_to_text="Goal: {{goal}}\nAnswer:")
    assert library.compare_pair(library.Pair(changed, "piqa"), 1).unexplained


def made_rows(question: str, options: Sequence[str], answer: str, answers: Sequence[Any], **more: str) -> str:
    """Four rows of a mirror, whose answer is in turn each of `answers`."""
    rows = [
        {question: f" Was ist {n} + 1? ", **dict(zip(options, "1234", strict=True)), answer: answers[n], **more}
        for n in range(4)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


INCLUDE = made_rows("question", [f"option_{letter}" for letter in "abcd"], "answer", range(4), domain="STEM")
MMMLU = made_rows("Question", "ABCD", "Answer", "ABCD", Subject="high_school_biology")


@pytest.mark.parametrize(
    ("form", "name", "folders", "rows"),
    [
        (
            "include_German@lm-eval",
            "include_base_44_german_stem",
            ["CohereLabs/include-base-44/German", "CohereForAI/include-base-44/German"],
            INCLUDE,
        ),
        ("mmmlu_DE_DE@lm-eval", "mmmlu_de_de_high_school_biology", ["openai/MMMLU/DE_DE"], MMMLU),
    ],
)
def test_tasks_without_rows_here_have_the_requests_of_lm_eval_on_rows_of_their_columns(
    form: str, name: str, folders: list[str], rows: str, lm_eval_tasks, tmp_path: Path
):
    for folder in folders:
        file = tmp_path / folder / "test.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(rows)
    [config] = TaskManager().load(form)
    result = library.compare_pair(library.Pair(config, name), 4, tmp_path)
    assert (result.requests, result.unexplained) == (4 * result.docs, [])
    assert result.docs >= 4
