"""What a judge wrote, read."""

from __future__ import annotations

import pytest

from multiform.requests import Completion
from multiform.scoring.scorers.verdicts import VerdictReader, verdict_pattern


def read(text: str, pattern: str, scale: object = None) -> float | None:
    return VerdictReader(pattern=pattern, scale=scale).verdict(Completion(text)).value


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("It matches.\nVerdict: CORRECT", None, 1.0),
        ("Verdict: incorrect.", None, 0.0),
        ("**Verdict:** CORRECT", None, 1.0),
        ("Verdict: **INCORRECT**", None, 0.0),
        ('"Verdict: CORRECT"', None, 1.0),
        ("The verdict is correct", None, 1.0),
        ("At first Verdict: CORRECT, but then\nVerdict: INCORRECT", None, 0.0),
        ("The answer is correct.", None, None),
        ("Verdict: CORRECTLY answered", None, None),
        ("", None, None),
        ("Score: 7", 10, 0.7),
        ("Score: 7/10", 10, 0.7),
        ("Score: 7/10", None, 0.7),
        ("Score: 7 / 10", [1, 5], 0.7),
        ("Score: 3", [1, 5], 0.5),
        ("Score: 1", [1, 5], 0.0),
        ("Score: 0.5", None, 0.5),
        ("Score: 11", 10, None),
        ("Score: -1", 10, None),
        ("Score: 3/0", 10, 0.3),
        ("Score: high", 10, None),
    ],
)
def test_the_last_verdict(text: str, scale: object, expected: float | None) -> None:
    value = read(text, verdict_pattern(["correct", "incorrect"], pairs=False), scale)
    assert value == (None if expected is None else pytest.approx(expected))


def test_a_pattern_without_a_group() -> None:
    assert read("so: PASS", "PASS|FAIL") == 1.0


def test_a_word_that_is_worth_nothing_known() -> None:
    assert read("grade=Q", "grade=(.)") is None
