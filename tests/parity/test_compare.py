"""What `make parity` counts as a difference, and which differences have a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.tasks.yaml import read_yaml
from tools.parity.compare import FAILS, LEAK, SETTINGS, Built, Setting, compared, together
from tools.parity.found import TaskFile, cached, task_files

PLAIN = Setting(0, False)


def ask(context: str, *answers: str) -> list[list[object]]:
    return [["loglikelihood", context, answer, 1] for answer in answers]


def test_equal_requests_are_no_difference():
    built = Built(docs=[ask("Q", " a", " b"), ask("R", " c")])
    found = compared("t", PLAIN, built, Built(docs=[ask("Q", " a", " b"), ask("R", " c")]))
    assert (found.docs, found.requests, found.differences, found.refused) == (2, 3, (), ())


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        (ask("Q", " a"), ask("Q ", " a"), "request 0: context"),
        (ask("Q", " a", " b"), ask("Q", " a", "b"), "request 1: continuation"),
        (ask("Q", " a", " b"), ask("Q", " a"), "number of requests"),
        ([["generate_until", "Q", {"until": ["\n"]}, 1]], [["generate_until", "Q", {"until": "\n"}, 1]], "gen_kwargs"),
        ([["generate_until", "Q", {}, 2]], [["generate_until", "Q", {}, 1]], "repeats"),
        ([["loglikelihood_rolling", "Q", 1]], [["loglikelihood", "Q", "", 1]], "request 0"),
    ],
)
def test_every_byte_counts(theirs, ours, what):
    [difference] = compared("t", PLAIN, Built(docs=[theirs]), Built(docs=[ours])).differences
    assert what in difference.what
    assert difference.reason is None


def test_another_name_of_the_same_limit_is_no_difference():
    theirs, ours = ([["generate_until", "Q", {name: 8}, 1]] for name in ("max_new_tokens", "max_gen_toks"))
    assert compared("t", PLAIN, Built(docs=[theirs]), Built(docs=[ours])).differences == ()


def test_a_document_among_its_own_examples_is_a_reason_for_that_document_alone():
    theirs = Built(docs=[ask("Q", "a"), ask("R", "a")], leaked=[1])
    found = compared("t", PLAIN, theirs, Built(docs=[ask("q", "a"), ask("r", "a")]))
    assert [difference.reason for difference in found.differences] == [None, LEAK]
    assert len(found.unexplained) == 1


def test_requests_where_lm_eval_makes_none_have_a_reason_but_not_the_other_way_round():
    assert compared("t", PLAIN, Built(error="no"), Built(docs=[ask("Q", "a")])).differences[0].reason == FAILS
    assert compared("t", PLAIN, Built(docs=[ask("Q", "a")]), Built(error="no")).differences[0].reason is None
    assert compared("t", PLAIN, Built(error="too few"), Built(error="no")).refused == ("0-shot: too few",)


def test_the_settings_of_a_task_are_added_up():
    equal = compared("t", PLAIN, Built(docs=[ask("Q", "a")]), Built(docs=[ask("Q", "a")]))
    refused = compared("t", PLAIN, Built(error="x"), Built(error="y"))
    both = together([equal, refused, equal])
    assert (both.docs, both.requests, both.refused) == (2, 2, ("0-shot: x",))


def test_lm_evals_requests_are_made_once_and_anew_when_anything_changes(tmp_path: Path):
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "test.jsonl").write_text("{}\n")
    path = tmp_path / "t.yaml"
    path.write_text("task: t\n")
    made = []

    def make() -> dict[Setting, Built]:
        made.append(1)
        return {s: Built(docs=[ask("\ud800 Q", " a", " b")], leaked=[0]) for s in SETTINGS}

    def read(about: int = 1) -> dict[Setting, Built]:
        return cached(tmp_path / "kept", TaskFile("t", path, read_yaml(path)), rows, about, make)

    assert read() == read()
    assert len(made) == 1
    read(about=2)
    path.write_text("task: t\nrepeats: 2\n")
    read()
    (rows / "train.jsonl").write_text("{}\n")
    read()
    assert len(made) == 4


def test_a_task_that_does_not_load_is_tried_again(tmp_path: Path):
    (tmp_path / "t.yaml").write_text("task: t\n")
    [task] = task_files(tmp_path)
    for _ in range(2):
        found = cached(tmp_path / "kept", task, tmp_path, 0, lambda: {PLAIN: Built(error="no")})
        assert found == {PLAIN: Built(error="no")}
    assert not (tmp_path / "kept").exists()


def test_groups_classes_and_files_to_include_are_no_task_files(tmp_path: Path):
    for name, text in {
        "a": "task: a\n",
        "b": "group: b\ntask: [a]\n",
        "c": "tag: x\n",
        "d": "task: d\nclass: x\n",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert [task.name for task in task_files(tmp_path)] == ["a"]
