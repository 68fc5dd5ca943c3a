"""BFCL: questions joined with their answers, and scored from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiform import Completion, Task, TaskManager
from multiform.errors import DataError
from multiform.tasks.datasets.bfcl import REPO, load

ROWS = Path(__file__).resolve().parents[4] / "shared" / "rows"
QUESTION = {
    "id": "simple_0",
    "question": [[{"role": "user", "content": "Pay 3 euros."}]],
    "function": [
        {"name": "pay", "parameters": {"type": "dict", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}}
    ],
}


def mirror(folder: Path, answer_id: str = "simple_0", category: str = "simple") -> Path:
    """A mirror with one question of a category and its answer."""
    for name, row in (
        (f"BFCL_v3_{category}/train.jsonl", QUESTION),
        (f"possible_answer/BFCL_v3_{category}/train.jsonl", {"id": answer_id, "ground_truth": [{"pay": {"sum": [3]}}]}),
    ):
        (folder / REPO / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / REPO / name).write_text(json.dumps(row) + "\n")
    return folder


def scores(name: str, completion: str, folder: Path) -> dict[str, Any]:
    [config] = TaskManager().load(name)
    task = Task.from_config(config, dataset_mirror=folder)
    sample = task.sample(0, task.eval_docs[0])
    [scored] = task.form.scorer.score_together([(sample, [Completion(completion)])])
    return dict(scored.values)


def test_a_written_call_is_compared_with_the_answer(tmp_path: Path) -> None:
    folder = mirror(tmp_path)
    assert scores("bfcl_simple", "[pay(sum=3)]", folder)["exact_match"] == 1.0
    assert scores("bfcl_simple", "[pay(sum=4)]", folder)["exact_match"] == 0.0


def test_no_call_is_right_where_no_function_fits(tmp_path: Path) -> None:
    folder = mirror(tmp_path, category="irrelevance")
    assert scores("bfcl_irrelevance", "No function does that.", folder)["exact_match"] == 1.0
    assert scores("bfcl_irrelevance", "[pay(sum=3)]", folder)["exact_match"] == 0.0


def test_a_question_without_an_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no answer to simple_0 in possible_answer/BFCL_v3_simple\.json"):
        load(category="simple", dataset_mirror=mirror(tmp_path, answer_id="simple_1"))


@pytest.mark.skipif(not (ROWS / REPO).is_dir(), reason="the mirrored rows are not there")
@pytest.mark.parametrize(
    "name", ["simple", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple"]
)
def test_the_first_right_values_of_real_rows_are_right(name: str) -> None:
    from multiform.scoring.scorers.columns import is_right

    for row in load(category=name, dataset_mirror=ROWS)["test"]:
        calls = []
        answers = [values for wanted in row["ground_truth"] for each in wanted.values() for values in each.values()]
        if [] in answers:
            continue  # no value is right, so no model can be
        for wanted in row["ground_truth"]:
            [(function, values_by_name)] = wanted.items()
            required = next(each["parameters"]["required"] for each in row["function"] if each["name"] == function)
            given = {
                name: first(values) for name, values in values_by_name.items() if name in required or "" not in values
            }
            calls.append((function, given))
        assert is_right(calls, row["ground_truth"], row["function"]), row["id"]


def first(values: list[Any]) -> Any:
    """The first right value; those of a mapping have lists of right values, too."""
    value = next((value for value in values if value != ""), "")
    if isinstance(value, dict):
        return {key: inner[0] for key, inner in value.items() if "" not in inner}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [first([item]) for item in value]
    return value
