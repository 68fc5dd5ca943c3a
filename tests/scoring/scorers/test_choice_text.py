"""The scorer that reads the text of a choice."""

from __future__ import annotations

import pytest

from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers

SCORER = scorers.get("choice_text")(
    pipeline=Pipeline("none", ()), metrics=[build_metric({"metric": name}) for name in ("exact_match", "invalid")]
)


def scored(text, labels=("A", "B"), choices=("Berlin", "Paris")):
    return SCORER.score(TextOutcome(prediction=text, references=("Paris",), labels=labels, choices=choices))


@pytest.mark.parametrize(
    "text", [" Paris", "paris.", "B", "(B)", "B. Paris", "The answer is B.", " Paris\n\nQuestion: x"]
)
def test_the_label_or_the_text_of_the_right_choice_is_right(text):
    assert scored(text) == {"exact_match": 1.0, "invalid": 0.0}


@pytest.mark.parametrize("text", [" Berlin", "A", "A. Berlin"])
def test_another_choice_is_wrong(text):
    assert scored(text) == {"exact_match": 0.0, "invalid": 0.0}


def test_neither_is_invalid():
    assert scored("Who knows?") == {"exact_match": 0.0, "invalid": 1.0}


def test_without_labels_the_first_line_counts():
    assert scored("Paris\nor so", labels=())["exact_match"] == 1.0
    assert scored("B", labels=())["exact_match"] == 0.0
