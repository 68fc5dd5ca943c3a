"""Choices that speak of other choices are found where a variation moves or relabels them."""

from __future__ import annotations

import json

import pytest

from multiform.cli.main import main
from multiform.lint.answers import refers

DOCS = [
    {"q": "Which is a colour?", "c": ["Red", "Blue", "Both A and B", "Seven"], "a": 2},
    {"q": "Which is a number?", "c": ["One", "Two", "Three", "All of the above"], "a": 3},
]
CODE = "[choices_refer]"


@pytest.fixture
def warnings(tmp_path, capsys):
    """What validate says about the task under a format."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS), encoding="utf-8")
    keys = "dataset_path: rows.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
    (tmp_path / "above.yaml").write_text(f"task: above\n{keys}formats: mcqa\n", encoding="utf-8")

    def check(label):
        assert main(["validate", f"above@{label}", "--include_path", str(tmp_path), "--json"]) == 0
        return " ".join(json.loads(capsys.readouterr().out)[0]["warnings"])

    return check


def test_moved_choices_that_speak_of_others_are_found(warnings):
    found = warnings("mcqa[order=reverse]")
    assert "doc 0: 'Both A and B'; 2 documents" in found
    assert CODE in found


def test_choices_that_name_labels_are_found_where_the_labels_change(warnings):
    assert "doc 0: 'Both A and B'; 1 document" in warnings("mcqa[labels=roman]")


def test_nothing_is_found_where_choices_stay_as_they_are(warnings):
    assert CODE not in warnings("mcqa") + warnings("mcqa[sep=space]")


@pytest.mark.parametrize(
    "text", ["A and B", "Both (A) and (C)", "A, B, and C", "Only B", "A or D only.", "Neither A nor B"]
)
def test_names_of_labels(text):
    assert refers(text, by_place=False)


@pytest.mark.parametrize(
    "text",
    ["All of the above", "none of the above.", "Both of the preceding", "None of these answers above", "All above"],
)
def test_names_of_places(text):
    assert refers(text, by_place=True)
    assert not refers(text, by_place=False)


@pytest.mark.parametrize("text", ["lifts his body above the pole", "below zero", "None of them"])
def test_places_of_other_things(text):
    assert not refers(text, by_place=True)


@pytest.mark.parametrize("text", ["Vitamin A and D deficiency", "A", "Bananas and Apples", "I and II", "a and b"])
def test_other_texts(text):
    assert not refers(text, by_place=True)
