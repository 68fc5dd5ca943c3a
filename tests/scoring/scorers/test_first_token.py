"""first_token: what an answer begins with counts, not how it is written."""

from __future__ import annotations

import pytest

from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers


def values(prediction: str | None, *references: str) -> dict[str, float]:
    kind = scorers.get("first_token")
    metrics = [build_metric({"metric": name}) for name in kind.default_metric_cfg]
    scorer = kind(pipeline=Pipeline("none", ()), metrics=metrics)
    return scorer.score(TextOutcome(prediction=prediction, references=references))


@pytest.mark.parametrize(
    "prediction",
    [
        "B",
        " B",
        "b",
        "(b)",
        "B.",
        " B. y",
        "B) Paris",
        "**B**",
        "\n\nB\nbecause",
        "“B”",
        "B, since",
        "_B_",
        "- B",
        "B:",
    ],
)
def test_a_label_is_read(prediction: str) -> None:
    assert values(prediction, "B") == {"exact_match": 1.0, "invalid": 0.0, "truncated": 0.0}


@pytest.mark.parametrize("prediction", ["A", "BB", "The answer is B", "A or B", "Bravo", "AB"])
def test_another_first_token_is_wrong(prediction: str) -> None:
    assert values(prediction, "B")["exact_match"] == 0.0


@pytest.mark.parametrize("prediction", ["", "  \n", "...", "**", None])
def test_no_token_is_invalid(prediction: str | None) -> None:
    assert values(prediction, "B") == {"exact_match": 0.0, "invalid": 1.0, "truncated": 0.0}


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [("New York, of course", "New York"), ("-5 degrees", "-5"), ("3.5.", "3.5"), ("Straße", "STRASSE")],
)
def test_longer_answers_and_numbers_are_right(prediction: str, reference: str) -> None:
    assert values(prediction, reference)["exact_match"] == 1.0


@pytest.mark.parametrize(
    ("prediction", "reference"), [("New Orleans", "New York"), ("new", "New York"), ("5", "-5"), ("35", "3.5")]
)
def test_parts_of_longer_answers_and_numbers_are_wrong(prediction: str, reference: str) -> None:
    assert values(prediction, reference)["exact_match"] == 0.0


def test_any_of_several_references() -> None:
    assert values("yes, it is", "No", "Yes")["exact_match"] == 1.0
