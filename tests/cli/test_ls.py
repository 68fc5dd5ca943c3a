"""`multiform ls`: what there is to choose from."""

from __future__ import annotations

import pytest

KINDS = {
    "tasks": ["quiz", "quiz_problems"],
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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tasks", "groups", "tags")])
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
