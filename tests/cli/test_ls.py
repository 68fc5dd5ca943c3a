"""`multiform ls`: what there is to choose from."""

from __future__ import annotations

import os
import sys

import pytest

KINDS = {
    "tasks": ["quiz", "quiz_problems"],
    "subtasks": ["quiz", "quiz_problems"],
    "tags": ["bundled"],
    "groups": [],
    "formats": ["mcqa", "cloze", "hybrid", "generate", "cot", "bpb"],
    "models": ["bundled", "hf", "dummy"],
    "metrics": ["acc", "acc_norm", "exact_match", "bits_per_byte"],
    "filters": ["take_first", "regex", "majority_vote"],
    "scorers": ["choice_match", "final_answer"],
    "samplers": ["default", "first_n"],
}


@pytest.mark.parametrize(("kind", "names"), KINDS.items())
def test_every_kind_is_listed_by_name(folder, kind, names):
    ran = folder.run("ls", kind)
    assert ran.code == 0
    assert set(names) <= {line.split()[0] for line in ran.out.splitlines()}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tasks", "subtasks", "groups", "tags")])
def test_every_name_says_what_it_is(folder, kind):
    assert [row["name"] for row in folder.run("ls", kind, "--json").json() if not row["about"]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_a_list_of_named_objects(folder, kind):
    rows = folder.run("ls", kind, "--json").json()
    assert set(KINDS[kind]) <= {row["name"] for row in rows}
    assert all({"name", "about"} <= set(row) for row in rows)


@pytest.fixture
def tasks(folder):
    """A folder of tasks, one of them broken."""
    folder.write(
        {
            "tasks/a.yaml": "task: animals\ntag: [science, zoo]\n",
            "tasks/deep/b.yaml": "task: stars\ntag: science\n",
            "tasks/common.yaml": "tag: science\n",
            "tasks/broken.yaml": "task: broken\n\ttag: a\n",
            "tasks/__pycache__/c.yaml": "task: cached\n",
        }
    )
    return folder


def test_tasks_of_another_folder_are_listed_too(tasks):
    names = [row["name"] for row in tasks.run("ls", "tasks", "--include_path", "tasks", "--json").json()]
    assert {"animals", "stars", "quiz"} <= set(names)
    assert not {"broken", "cached"} & set(names)


def test_a_task_is_listed_with_its_file(tasks):
    rows = {row["name"]: row for row in tasks.run("ls", "tasks", "--include_path", "tasks", "--json").json()}
    assert rows["stars"]["path"] == "tasks/deep/b.yaml"


def test_a_tag_is_listed_with_its_tasks(tasks):
    rows = {row["name"]: row for row in tasks.run("ls", "tags", "--include_path", "tasks", "--json").json()}
    assert rows["science"]["tasks"] == ["animals", "stars"]


def test_a_broken_file_is_named_on_standard_error(tasks):
    ran = tasks.run("ls", "tasks", "--include_path", "tasks", "--json")
    assert ran.code == 0
    assert "tasks/broken.yaml:2: not valid YAML: a tab" in ran.err


def test_a_later_folder_replaces_a_task_and_says_so(folder):
    folder.write({"mine/quiz.yaml": "task: quiz\n"})
    ran = folder.run("ls", "tasks", "--include_path", "mine", "--json")
    assert {row["name"]: row["path"] for row in ran.json()}["quiz"] == "mine/quiz.yaml"
    assert "task 'quiz' of mine replaces the one of" in ran.err


def test_groups_are_listed_apart_from_tasks(tasks):
    tasks.write({"tasks/g.yaml": "group: both\ntask: [animals, stars]\n"})
    listed = {
        kind: {row["name"] for row in tasks.run("ls", kind, "--include_path", "tasks", "--json").json()}
        for kind in ("tasks", "subtasks", "groups")
    }
    assert listed["groups"] >= {"both", "mmlu"}
    assert listed["tasks"] >= {"animals", "stars", "mmlu"}  # a dataset with subsets is listed as one task
    assert listed["subtasks"] >= {"animals", "stars", "mmlu_anatomy"}
    assert "both" not in listed["tasks"]
    assert "mmlu_anatomy" not in listed["tasks"]


def test_tasks_are_listed_with_what_is_known_of_them_and_filtered(folder):
    lines = folder.run("ls", "tasks", "--kind", "math", "--language", "de").out.splitlines()
    assert {line.split()[0] for line in lines} >= {"mgsm"}
    assert not {line.split()[0] for line in lines} & {"gsm8k", "belebele"}
    assert lines[0].split(maxsplit=1)[1].split("  ")[0] == "MGSM"
    rows = folder.run("ls", "tasks", "--kind", "math", "--language", "de", "--json").json()
    row = next(row for row in rows if row["title"] == "MGSM")
    assert (row["rows"], row["licence"], "mgsm_de" in row["tasks"]) == (2750, "CC BY 4.0", True)


def test_the_columns_of_tasks_have_names_on_a_terminal(folder, monkeypatch):
    assert folder.run("ls", "tasks").out.startswith("a")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert folder.run("ls", "tasks").out.split()[:6] == ["name", "title", "kind", "rows", "language", "licence"]


def test_rows_that_nobody_has_counted_are_unknown_and_not_none(folder):
    rows = folder.run("ls", "tasks", "--json").json()
    assert {row["rows"] for row in rows if row["name"] in ("inverse_scaling", "global_piqa_parallel")} == {"unknown"}
    assert [row["name"] for row in rows if row.get("rows") == 0] == []


def test_a_fault_that_many_files_include_is_named_once(folder):
    folder.write({"tasks/common_yaml": "tag: [open\n"})
    folder.write({f"tasks/{number}.yaml": f"include: common_yaml\ntask: t{number}\n" for number in range(70)})
    for _ in range(2):  # the second time from the index that is kept
        ran = folder.run("ls", "tasks", "--include_path", "tasks")
        assert ran.code == 0
        assert ran.err.count("tasks/common_yaml:") == 1


def test_of_very_many_broken_files_the_first_are_named(folder):
    folder.write({f"tasks/{number:02}.yaml": "task: [open\n" for number in range(30)})
    ran = folder.run("ls", "tasks", "--include_path", "tasks")
    assert [line.split(":")[1].strip() for line in ran.err.splitlines()[:-1]] == [
        f"tasks/{n:02}.yaml" for n in range(5)
    ]
    assert ran.err.splitlines()[-1] == "WARNING: and 25 more of this kind: --verbosity DEBUG shows them"


@pytest.mark.process
def test_file_names_that_are_not_utf8_are_listed_with_escapes(folder):
    (folder.path / "tasks").mkdir()
    (folder.path / "tasks" / os.fsdecode(b"caf\xe9.yaml")).write_text("task: latin\n")
    ran = folder.process("ls", "tasks", "--include_path", "tasks")
    assert "tasks/caf\\udce9.yaml" in ran.out
    rows = folder.process("ls", "tasks", "--include_path", "tasks", "--json").json()
    assert os.fsencode({row["name"]: row["path"] for row in rows}["latin"]) == b"tasks/caf\xe9.yaml"


def test_without_a_kind_the_help_says_which_there_are(folder):
    ran = folder.run("ls")
    assert (ran.code, "subtasks" in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--kind", "mathh"], "--kind: no task of kind 'mathh'; did you mean 'math'?"),
        (["--language", "xx"], "--language: no such task in language 'xx'"),
    ],
)
def test_a_kind_or_language_that_no_task_has_is_an_error(folder, flags, message):
    ran = folder.run("ls", "tasks", *flags)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize(
    "words", [("ls", "tasks", "--dataset_mirror", "d"), ("new", "rows.csv", "--include_path", "d")], ids=lambda w: w[0]
)
def test_a_flag_that_would_change_nothing_is_refused(folder, words):
    ran = folder.run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert f"no flag {words[-2]}" in ran.err
