"""regex: what a pattern finds counts, and how often it finds nothing is said."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.errors import ConfigError
from multiform.scoring.filters import Pipeline, build_pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers


def values(text: Any, *references: str, pipeline: Pipeline | None = None, **kwargs: Any) -> dict[str, float]:
    kind = scorers.get("regex")
    metrics = [build_metric({"metric": name}) for name in ("exact_match", "invalid")]
    scorer = kind(pipeline=pipeline or Pipeline("none", ()), metrics=metrics, **kwargs)
    [read] = scorer.pipeline([text], {})
    return scorer.score(TextOutcome(prediction=read, references=references))


RIGHT = {"exact_match": 1.0, "invalid": 0.0}
WRONG = {"exact_match": 0.0, "invalid": 0.0}
INVALID = {"exact_match": 0.0, "invalid": 1.0}


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("9 * 2 = 18\n#### 18", "18", RIGHT),
        ("#### 1,234.00", "1234", RIGHT),
        ("#### 18.", "18", RIGHT),
        ("#### -3", "3", WRONG),
        ("#### 3.5", "35", WRONG),
        ("18", "18", INVALID),
        ("", "18", INVALID),
    ],
)
def test_the_default_reads_the_answers_of_gsm8k(text: str, reference: str, expected: dict[str, float]) -> None:
    assert values(text, reference) == expected


def test_a_worked_solution_may_be_the_reference() -> None:
    assert values("so it is\n#### 18", "She sells 9 eggs for $18.\n#### 18") == RIGHT


def test_another_pattern_without_case_and_punctuation() -> None:
    assert values("Answer: new   york!", "New York.", regex_pattern=r"Answer: (.*)") == RIGHT


def test_the_last_match() -> None:
    assert values("#### 1 #### 2", "2", group_select=-1) == RIGHT
    assert values("#### 1 #### 2", "2") == WRONG


def test_filters_of_the_task_read_the_answer() -> None:
    steps = [{"function": "regex", "regex_pattern": "is ([0-9]+)"}, {"function": "take_first"}]
    pipeline = build_pipeline("own", steps)
    assert values("it is 7", "7", pipeline=pipeline) == RIGHT
    assert values("no idea", "7", pipeline=pipeline) == INVALID


def test_a_bad_pattern_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match=r"scorer.kwargs.regex_pattern: bad regular expression '\(': missing \)"):
        values("", "", regex_pattern="(")
