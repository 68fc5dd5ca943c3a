"""What `validate` and `run` say about tasks that run but are odd."""

from __future__ import annotations

import json

import pytest

QUESTIONS = [{"question": f"Question {i}?", "choices": [f"x{i}", f"y{i}", f"z{i}"], "answer": i % 3} for i in range(4)]


def changed(index, **columns):
    """The usual rows, with columns of one of them changed."""
    return [{**row, **columns} if i == index else row for i, row in enumerate(QUESTIONS)]


CASES = {
    "mixed_answers": (
        changed(2, answer="1"),
        "task.yaml:7: doc_to_target: the answers in column 'answer' are of mixed kinds: numbers and text "
        "(answer: 0 in doc 0, '1' in doc 2)",
    ),
    "duplicate_choices": (
        changed(1, choices=["a", "b", "a"]),
        "task.yaml:6: doc_to_choice: documents with the same choice twice: 1 (doc 1: 'a' in ['a', 'b', 'a'])",
    ),
    "duplicate_rows": (
        [*QUESTIONS, QUESTIONS[1]],
        "task.yaml:1: documents that repeat another in all that is read: 1 (docs 1 and 4)",
    ),
    "empty_question": (
        changed(3, question=" "),
        "task.yaml:5: doc_to_text: documents with an empty question: 1 (doc 3)",
    ),
}


@pytest.mark.parametrize("code", CASES)
@pytest.mark.parametrize("name", ["task.yaml", "task.yaml@mcqa+cloze"])
def test_odd_documents_are_a_warning_once(folder, code, name):
    rows, says = CASES[code]
    folder.rows(*rows)
    folder.task()
    for command in (["validate", name], ["run", "--model", "dummy", "--tasks", name]):
        ran = folder.run(*command)
        assert ran.code == 0
        [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
        assert line.startswith(f"WARNING: {says}; ")
        assert line.endswith(f" [{code}]")


def test_warnings_are_in_the_json_of_each_form(folder):
    folder.rows(*CASES["duplicate_rows"][0])
    folder.task()
    rows = json.loads(folder.run("validate", "task.yaml@mcqa+cloze", "--json").out)
    assert [[warning.rpartition(" ")[2] for warning in row["warnings"]] for row in rows] == [["[duplicate_rows]"]] * 2


def test_several_tasks_of_a_run_share_a_line(folder):
    folder.rows(*CASES["duplicate_rows"][0])
    for name in ("one", "two", "three"):
        folder.task(f"task: {name}\n", name=f"{name}.yaml")
    ran = folder.run("run", "--model", "dummy", "--tasks", "one.yaml", "two.yaml", "three.yaml")
    [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
    assert line.endswith("[duplicate_rows]; so for 2 more: two, three")


def test_a_healthy_task_has_no_warning(folder):
    folder.task()
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml@all")
    assert "WARNING" not in ran.err


def test_texts_and_numbers_are_the_same_answer_where_the_model_writes(folder):
    folder.rows({"question": "2 + 2?", "answer": 4}, {"question": "Capital of France?", "answer": "Paris"})
    folder.task("output_type: generate_until\n", without="doc_to_choice")
    assert folder.run("validate", "task.yaml").err == ""


@pytest.mark.parametrize("splits", ["fewshot_split: test", "training_split: train", ""])
def test_shots_from_the_evaluated_documents_are_a_warning(folder, splits):
    """One file serves every split, so that `train` has the same rows as `test`."""
    folder.task(f"{splits}\n")
    for command in (["validate", "task.yaml"], ["run", "--model", "dummy", "--tasks", "task.yaml"]):
        assert "WARNING" not in folder.run(*command).err
        ran = folder.run(*command, "--num_fewshot", "1")
        [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
        assert "few-shot examples are drawn from the documents that are evaluated" in line


def test_shots_from_another_split_are_right(folder):
    folder.write({"d/train.jsonl": "".join(json.dumps(row) + "\n" for row in QUESTIONS)})
    folder.rows({"question": "Why?", "choices": ["a", "b"], "answer": 0}, QUESTIONS[0], name="d/test.jsonl")
    folder.task("dataset_path: d\n")
    ran = folder.run("validate", "task.yaml", "--num_fewshot", "1")
    assert ran.err.count("[shots_from_evaluated_split]") == 1
    assert "set fewshot_split to another one: train" in ran.err
    folder.task("dataset_path: d\ntraining_split: train\n")
    assert folder.run("validate", "task.yaml", "--num_fewshot", "1").err == ""


def test_decontamination_without_a_corpus_is_said(folder):
    folder.task("should_decontaminate: true\n")
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml")
    said = "INFO: task.yaml:8: should_decontaminate: nothing is decontaminated without a corpus"
    assert [line for line in ran.err.splitlines() if line.startswith(said)]
    folder.write({"corpus.txt": "nothing of it"})
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml", "--decontamination_corpus", "corpus.txt")
    assert "without a corpus" not in ran.err
