"""`formats infer`, and what the log says about a task that was written without formats."""

from __future__ import annotations

import json

import pytest

ROWS = '{"question": "Is water wet?", "a": "yes", "b": "no", "key": "A"}\n'
TASK = """
dataset_path: rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nA. {{a}}\\nB. {{b}}\\nAnswer:"
doc_to_choice: [A, B]
doc_to_target: key
"""
PAIRS = """
task: pairs
dataset_path: rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: ""
doc_to_choice: "{{[a, b]}}"
doc_to_target: 0
"""


@pytest.fixture
def tasks(folder):
    above = "../rows.jsonl"
    files = {
        f"tasks/{name}.yaml": f"task: {name}\ntag: both{TASK}".replace("rows.jsonl", above) for name in ("one", "two")
    }
    folder.write({"rows.jsonl": ROWS, "tasks/pairs.yaml": PAIRS.replace("rows.jsonl", above), **files})
    return folder


def test_infer_shows_what_is_found_once_for_all_tasks_that_share_it(tasks):
    ran = tasks.run("formats", "infer", "both", "--include_path", "tasks")
    assert (ran.code, ran.out) == (
        0,
        "=== one and 1 more · recovered from the template\n"
        "question  {{question}}\n"
        "choices   ['{{a}}', '{{b}}']\n"
        "answer    {{ (key)|index_among(['A', 'B']) }}\n"
        "left out  'Question:', 'A. B.', 'Answer:'\n"
        "formats   mcqa, cloze, hybrid, generate, cot, bpb\n\n",
    )


def test_infer_as_json(tasks):
    ran = tasks.run("formats", "infer", "both@cloze", "pairs", "--json", "--include_path", "tasks")
    both, pairs = json.loads(ran.out)
    assert both["tasks"] == ["one", "two"]
    assert (both["how"], both["question"]) == ("template", "{{question}}")
    assert (pairs["how"], pairs["reason"]) == ("refused", "no question")


def test_the_log_says_it_once(tasks):
    ran = tasks.run("show", "both@cloze", "--include_path", "tasks")
    notes = [line for line in ran.err.splitlines() if "recovered" in line]
    assert len(notes) == 1
    assert "one@cloze and 1 more: doc_to_text is a prompt; recovered question {{question}}" in notes[0]
    assert "Question: Is water wet?\nAnswer:\n" in ran.out


def test_a_refusal_names_file_line_and_what_to_add(tasks):
    ran = tasks.run("show", "pairs@mcqa", "--include_path", "tasks")
    assert ran.code == 2
    assert "pairs.yaml:6: doc_to_text: there is no question" in ran.err
    assert "write a file that includes this one and gives formats:" in ran.err


def test_a_task_that_gives_formats_is_not_inferred(tasks):
    tasks.write({"mine.yaml": f"task: mine\nformats: mcqa{TASK}"})
    shown = tasks.run("show", "mine.yaml")
    assert shown.code == 2
    assert "doc_to_text is a prompt already" in shown.err
    assert "its fields are used as they are" in tasks.run("formats", "infer", "quiz").out
