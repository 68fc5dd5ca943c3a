"""`hf/ORG/DATASET`: tasks that a dataset declares in its own eval.yaml."""

from __future__ import annotations

import json
from typing import Any

import pytest

from multiform import Task, TaskManager
from multiform.errors import MultiformError
from tests.cli.conftest import Folder
from tests.cli.conftest import folder as folder

THREE_LINES = """\
tasks:
  - split: test
    field_spec: {input: question, target: answer, choices: options}
"""
FIVE_FORMS = ["mcqa", "cloze", "hybrid", "generate", "cot"]
ROWS = [
    {"question": "Which is a colour?", "options": ["seven", "red", "five"], "answer": "B"},
    {"question": "Which is a number?", "options": ["blue", "green", "six"], "answer": "C"},
]


def declare(folder: Folder, text: str, *rows: dict[str, Any], name: str = "acme/colours") -> None:
    folder.write({f"mirror/{name}/eval.yaml": text})
    folder.rows(*(rows or ROWS), name=f"mirror/{name}/default/test.jsonl")


def samples(folder: Folder, spec: str) -> list[Any]:
    mirror = folder.path / "mirror"
    [config] = TaskManager(dataset_mirror=mirror).load(spec)
    task = Task.from_config(config, dataset_mirror=mirror)
    return [task.sample(doc_id, doc) for doc_id, doc in task.doc_iterator()]


def test_three_lines_run_under_five_forms(folder: Folder):
    declare(folder, THREE_LINES)
    spec = f"hf/acme/colours@{'+'.join(FIVE_FORMS)}"
    ran = folder.run("run", spec, "--model", "dummy", "--dataset_mirror", "mirror", "-o", "out")
    assert ran.code == 0, ran.err
    results = json.loads(folder.results()[0].read_text())["results"]
    assert sorted(results) == sorted(f"hf/acme/colours@{form}" for form in FIVE_FORMS)
    assert [sample.gold for sample in samples(folder, "hf/acme/colours@mcqa")] == [(1,), (2,)]


def test_formats_infer_looks_into_the_mirror(folder: Folder):
    declare(folder, THREE_LINES)
    ran = folder.run("formats", "infer", "hf/acme/colours", "--dataset_mirror", "mirror")
    assert (ran.code, ran.err) == (0, "")
    assert "question  " in ran.out


@pytest.mark.parametrize("command", ["show", "validate", "lint"])
def test_other_commands_take_it_as_well(command: str, folder: Folder):
    declare(folder, THREE_LINES)
    ran = folder.run(command, "hf/acme/colours@cloze", "--dataset_mirror", "mirror")
    assert "hf/acme/colours@cloze" in ran.out
    assert not ran.errors


def test_a_local_folder_of_that_name_has_the_file_and_the_rows(folder: Folder):
    folder.write({"acme/colours/eval.yaml": THREE_LINES})
    folder.rows(*ROWS, name="acme/colours/test.jsonl")
    assert folder.run("validate", "hf/acme/colours@all").code == 0


def test_a_file_of_the_hub_pins_the_rows_to_its_commit(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder.write({f"snapshots/{commit}/eval.yaml": THREE_LINES})
    path = folder.path / "snapshots" / commit / "eval.yaml"
    asked: list[Any] = []

    def download(*names: str, **kwargs: str) -> str:
        asked.append((*names, kwargs["repo_type"]))
        return str(path)

    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    [config] = TaskManager().load("hf/acme/colours@mcqa")
    assert asked == [("acme/colours", "eval.yaml", "dataset")]
    assert config.dataset_kwargs == {"revision": commit}
    assert config.dataset_path == "acme/colours"


def test_columns_as_choices_numbers_as_answers_and_names_with_blanks(folder: Folder):
    text = "split: test\nfield_spec: {input: The question, target: key, choices: [A, choice two]}\n"
    declare(folder, text, {"The question": "Which is a colour?", "A": "six", "choice two": "red", "key": 1})
    [sample] = samples(folder, "hf/acme/colours@mcqa")
    assert "Which is a colour?" in sample.prompt
    assert "A. six\nB. red" in sample.prompt
    assert sample.gold == (1,)


def test_shuffled_choices_are_an_order_of_each_form_that_shows_them(folder: Folder):
    declare(folder, f"{THREE_LINES}    shuffle_choices: true\n")
    manager = TaskManager(dataset_mirror=folder.path / "mirror")
    forms = [config.form_name for config in manager.load("hf/acme/colours@mcqa+cloze")]
    assert forms == ["hf/acme/colours@mcqa[order=shuffle:0]", "hf/acme/colours@cloze"]


def test_epochs_are_repeats_with_the_declared_reduction(folder: Folder):
    text = "epochs: 4\nepoch_reducer: pass_at_2\nfield_spec: {input: q, target: a}\nscorers: [{name: exact}]\n"
    declare(folder, text, {"q": "1 + 1?", "a": "2"})
    ran = folder.run("run", "hf/acme/colours@short", "--model", "dummy", "--dataset_mirror", "mirror", "-o", "out")
    assert ran.code == 0, ran.err
    [scores] = json.loads(folder.results()[0].read_text())["results"].values()
    assert "pass@2(exact_match),none" in scores


def test_one_of_several_tasks_is_named_by_its_id(folder: Folder):
    text = "tasks:\n" + "".join(f"- {{id: {name}, field_spec: {{input: question, target: answer}}}}\n" for name in "ab")
    declare(folder, text)
    manager = TaskManager(dataset_mirror=folder.path / "mirror")
    assert [config.base_name for config in manager.load("hf/acme/colours")] == [
        "hf/acme/colours/a",
        "hf/acme/colours/b",
    ]
    assert [config.base_name for config in manager.load("hf/acme/colours/b@cot")] == ["hf/acme/colours/b"]
    with pytest.raises(MultiformError, match="no task 'c'"):
        manager.load("hf/acme/colours/c")


FIELDS = "field_spec: {input: question, target: answer, choices: options}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split: test\n", "field_spec needs input and target"),
        (f"{FIELDS}splits: test\n", "did you mean 'split'"),
        ("field_spec: {input: question, target: answer, sandbox: s}\n", "unknown key 'sandbox'"),
        (f"{FIELDS}solvers: [{{name: use_tools}}]\n", "solver 'use_tools' is not supported"),
        (f"{FIELDS}scorers: [{{name: vibes}}]\n", "no scorer 'vibes'"),
        (f"{FIELDS}epochs: 0\n", "expected a number of 1 or more"),
        (f"{FIELDS}epochs: 3\nepoch_reducer: median\n", "no reduction 'median'"),
        ("field_spec: {input: question, target: answer}\nscorers: [choice]\n", "needs choices"),
        ("field_spec: {input: question, target: answer}\nshuffle_choices: true\n", "there are no choices"),
        (f"{FIELDS}solvers: [{{name: multiple_choice, args: cot}}]\n", "expected arguments by name, got 'cot'"),
        (f"{FIELDS}scorers: [{{name: match, args: {{1: 2}}}}]\n", "expected arguments by name, got {1: 2}"),
        ("tasks: []\n", "expected a list of tasks"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_place(text: str, message: str, folder: Folder):
    declare(folder, text)
    ran = folder.run("run", "hf/acme/colours@cot", "--model", "dummy", "--dataset_mirror", "mirror")
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert message in ran.errors[0]
    assert "mirror/acme/colours/eval.yaml:" in ran.errors[0]


def test_a_prompt_that_formats_replace_is_said_aloud(folder: Folder):
    declare(folder, f"{FIELDS}solvers: [{{name: system_message, args: {{template: Be brief.}}}}]\n")
    ran = folder.run("validate", "hf/acme/colours@mcqa", "--dataset_mirror", "mirror")
    assert ran.code == 0
    assert "the prompt of solver 'system_message' is not used" in ran.err


def test_without_the_file_the_message_says_where_to_put_it(folder: Folder):
    (folder.path / "mirror").mkdir()
    ran = folder.run("run", "hf/acme/colours", "--model", "dummy", "--dataset_mirror", "mirror")
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert "save its files as mirror/acme/colours/eval.yaml; looked in mirror" in ran.errors[0]
    assert folder.run("run", "hf/colours", "--model", "dummy").code == 2
