"""The arguments of the scorers that read choices and final answers."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.errors import ConfigError
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import ChoiceOutcome, TextOutcome
from multiform.scoring.scorers import Scorer, scorers


def scorer(name: str, **kwargs: Any) -> Scorer:
    metrics = [build_metric({"metric": metric}) for metric in ("exact_match", "invalid")]
    return scorers.get(name)(pipeline=Pipeline("none", ()), metrics=metrics, **kwargs)


def read(name: str, text: str, *references: str, **kwargs: Any) -> tuple[float, float]:
    values = scorer(name, **kwargs).score(TextOutcome(prediction=text, references=references))
    return values["exact_match"], values["invalid"]


RIGHT, WRONG, INVALID = (1.0, 0.0), (0.0, 0.0), (0.0, 1.0)


class TestChoiceMatch:
    @pytest.mark.parametrize("text", ["B", "(b)", "I think the answer is B.", "B. y"])
    def test_letters_where_the_answer_is_one(self, text: str) -> None:
        assert read("choice_match", text, "B") == RIGHT

    def test_labels_of_a_task(self) -> None:
        assert read("choice_match", "The answer is II", "ii") == WRONG  # the whole text counts
        assert read("choice_match", "The answer is II", "ii", labels=["I", "II", "III"]) == RIGHT

    def test_numbers(self) -> None:
        assert read("choice_match", "The answer is 3.", "3", labels="numbers") == RIGHT

    def test_the_labels_of_a_format_come_first(self) -> None:
        outcome = TextOutcome(prediction="The answer is Q", references=("Q",), labels=("P", "Q"))
        assert scorer("choice_match", labels=["A", "B"]).score(outcome)["exact_match"] == 1.0

    def test_without_labels_the_whole_text_counts(self) -> None:
        assert read("choice_match", " Paris! ", "paris") == RIGHT
        assert read("choice_match", "Paris or Rome", "Paris") == WRONG
        assert read("choice_match", "", "Paris") == INVALID

    def test_wrong_labels(self) -> None:
        with pytest.raises(ConfigError, match=r"scorer.kwargs.labels: expected a list, 'letters' or 'numbers'"):
            scorer("choice_match", labels="roman")


class TestFinalAnswer:
    def test_patterns_come_first(self) -> None:
        text = "Result => 12\nThe final answer is 13"
        assert read("final_answer", text, "13") == RIGHT
        assert read("final_answer", text, "12", patterns=["Result => (.*)"]) == RIGHT

    def test_one_pattern_may_be_a_string_without_a_group(self) -> None:
        assert read("final_answer", "it was 1984 or so, who knows, I do not", "1984", patterns=r"\d{4}") == RIGHT

    def test_a_bad_pattern(self) -> None:
        with pytest.raises(ConfigError, match=r"scorer.kwargs.patterns: bad regular expression"):
            scorer("final_answer", patterns=["["])


@pytest.mark.parametrize("name", ["first_token", "choice_match", "final_answer", "regex"])
def test_an_output_that_is_no_text_is_an_error(name: str) -> None:
    outcome = ChoiceOutcome(loglikelihoods=(-1.0,), greedy=(True,), choices=("x",), gold=(0,))
    with pytest.raises(ConfigError, match="scores generated completions; remove it, or set output_type"):
        scorer(name).score(outcome)
