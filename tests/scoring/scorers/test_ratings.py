"""EQ-Bench's ratings of feelings, beside lm-eval's own function."""

from __future__ import annotations

import pytest

from multiform import DataError
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.columns import Ratings

REFERENCE = {
    "emotion1": "Relief", "emotion2": "Anger", "emotion3": "Pride", "emotion4": "Boredom",
    "emotion1_score": 7, "emotion2_score": "2", "emotion3_score": 0, "emotion4_score": 10,
}  # fmt: skip
TEXTS = [
    "Relief: 7\nAnger: 2\nPride: 0\nBoredom: 10",
    "First:\nRelief: 1\nAnger: 9\nPride: 5\nBoredom: 0\n\nRevised scores:\nRelief: 6\nAnger: 2\nPride: 0\nBoredom: 9",
    "Relief: 0\nAnger: 10\nPride: 10\nBoredom: 0",
    "Relief: 7\nAnger: 2\nPride: 0",
    "Relief: 7\nAnger: 2\nPride: 0\nJoy: 10",
    "Score: 3\nRelief: 7\nAnger: 2\nPride: 0\nBoredom: 10",
    "",
]  # fmt: skip


def values(text, reference=REFERENCE):
    metrics = [build_metric({"metric": name}) for name in Ratings.own_metrics]
    scorer = Ratings(pipeline=Pipeline(name="none", steps=()), metrics=metrics)
    return scorer.score_documents([[TextOutcome(prediction=text, references=("",))]], [{"reference": reference}])[0]


def test_the_reference_gets_100_and_ratings_far_from_it_less_than_nothing():
    assert values(TEXTS[0])["eqbench"] == 100
    assert values(TEXTS[2])["eqbench"] < 0


def test_the_revised_ratings_count():
    assert values(TEXTS[1])["eqbench"] > 50


def test_a_reference_that_is_no_mapping_is_an_error():
    with pytest.raises(DataError, match="expected a mapping"):
        values("", reference=[1])


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_the_values_are_those_of_lm_eval(text):
    utils = pytest.importorskip("lm_eval.tasks.eq_bench.utils")
    expected = utils.calculate_score_fullscale({"reference_answer_fullscale": repr(REFERENCE)}, [text])
    assert {name: values(text)[name] for name in expected} == pytest.approx(expected)
