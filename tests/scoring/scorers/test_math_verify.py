"""The scorer `math_verify`: answers that are equal as mathematics."""

from __future__ import annotations

import pytest

from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.answers import MathVerify

pytest.importorskip("math_verify", reason="math-verify is not installed: pip install 'multiform[math]'")

SCORER = MathVerify(pipeline=Pipeline("none", ()), metrics=[build_metric({"metric": "exact_match"})])


@pytest.mark.parametrize(
    ("reference", "completion", "right"),
    [
        (r"\frac{1}{2}", r"So it is \boxed{\frac{2}{4}}.", True),
        (r"\frac{1}{2}", "The final answer is 0.5", True),
        ("025", "The final answer is 25.", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"Thus \boxed{(3, \pi/2)}.", True),
        (r"\frac{\sqrt{2}}{3}", r"\boxed{\frac{\sqrt{2}}{3}}", True),
        ("5", r"\boxed{6}", False),
        ("5", "First 5, then I do not know\nwhat comes next.", False),
    ],
)
def test_equal_answers_count(reference: str, completion: str, right: bool):
    read = SCORER.reading(TextOutcome(prediction=completion, references=(reference,)))
    assert (read.prediction in read.references) is right


def test_an_answer_that_takes_too_long_to_compare_is_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("multiform.scoring.scorers.answers._COMPARING", 0.3)
    read = SCORER.reading(TextOutcome(prediction=r"\boxed{7^{7^{7^{7}}} + 1}", references=("12",)))
    assert read.prediction not in read.references
