"""Scorers that users write: class defaults, `score` for one answer, `score_instances` for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from multiform import ConfigError, Results, TaskConfig, evaluate, register_scorer
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers import Scorer, scorers

DOCS = [{"question": f"{n} + {n}?", "answer": str(n + n)} for n in range(1, 5)]


def run(text: str, *, docs: Sequence[dict[str, Any]] = DOCS, **fields: Any) -> Results:
    config = TaskConfig(
        task="sums",
        custom_dataset=lambda **kwargs: {"test": list(docs)},
        test_split="test",
        doc_to_text="question",
        doc_to_target="answer",
        **fields,
    )
    return evaluate(model="dummy", model_args={"text": text}, tasks=[config])


def scores(results: Results) -> dict[str, float]:
    return {key: value for key, value in results["sums"].items() if "," in key and "stderr" not in key}


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    before = dict(scorers._entries)
    yield
    scorers._entries.clear()
    scorers._entries.update(before)


def test_class_defaults_name_filters_and_metrics() -> None:
    @register_scorer("last_number")
    class LastNumber(Scorer):
        default_filter_cfg = ({"function": "regex", "regex_pattern": "[0-9]+", "group_select": -1},)
        default_metric_cfg = ("exact_match", "truncated")

    assert scores(run("1 and 3 are 4", scorer="last_number")) == {"exact_match,none": 0.25, "truncated,none": 0.0}


def test_filters_and_metrics_of_the_task_come_before_class_defaults() -> None:
    @register_scorer("last_number")
    class LastNumber(Scorer):
        default_filter_cfg = ({"function": "regex", "regex_pattern": "[0-9]+", "group_select": -1},)
        default_metric_cfg = ("exact_match", "truncated")

    first = {"name": "first", "filter": [{"function": "regex", "regex_pattern": "[0-9]+"}, {"function": "take_first"}]}
    results = run("2 and 9", scorer="last_number", filter_list=[first], metric_list=[{"metric": "exact_match"}])
    assert scores(results) == {"exact_match,first": 0.25}


def test_score_of_one_answer_with_arguments_as_fields() -> None:
    @register_scorer("close")
    @dataclass(kw_only=True)
    class Close(Scorer):
        within: float = 0.0

        def score(self, outcome: Outcome) -> dict[str, Any]:
            assert isinstance(outcome, TextOutcome)
            distance = abs(float(outcome.prediction) - float(outcome.references[0]))
            return {"close": float(distance <= self.within), "distance": distance}

    assert scores(run("4", scorer="close")) == {"close,none": 0.25, "distance,none": 2.0}
    wider = run("4", scorer={"type": "close", "kwargs": {"within": 2}})
    assert scores(wider) == {"close,none": 0.75, "distance,none": 2.0}


def test_a_constructor_of_its_own() -> None:
    @register_scorer("longer")
    class Longer(Scorer):
        def __init__(self, *, than: int, **given: Any) -> None:
            super().__init__(**given)
            self.than = than

        def score(self, outcome: Outcome) -> dict[str, Any]:
            assert isinstance(outcome, TextOutcome)
            return {"longer": float(len(outcome.prediction) > self.than)}

    assert scores(run("four", scorer={"type": "longer", "kwargs": {"than": 3}})) == {"longer,none": 1.0}


def test_repeats_are_scored_one_by_one_and_the_first_counts() -> None:
    seen: list[str] = []

    @register_scorer("counting")
    class Counting(Scorer):
        def score(self, outcome: Outcome) -> dict[str, Any]:
            assert isinstance(outcome, TextOutcome)
            seen.append(outcome.prediction)
            return {"number": float(len(seen))}

    results = run("x", scorer="counting", repeats=3, docs=DOCS[:1])
    assert (len(seen), scores(results)) == (3, {"number,none": 1.0})


def test_score_all_sees_all_answers_together() -> None:
    calls: list[int] = []

    @register_scorer("ranked")
    class Ranked(Scorer):
        deferred = True

        def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Any]) -> list[dict[str, Any]]:
            calls.append(len(docs))
            return [{"rank": float(rank), "note": doc["question"]} for rank, doc in enumerate(docs)]

    results = run("4", scorer="ranked")
    assert calls == [4]
    assert scores(results) == {"rank,none": 1.5}  # the note is text and stays with its document
    assert [sample.values["note"] for sample in results.forms[0].samples] == [doc["question"] for doc in DOCS]


def test_deferred_and_others_give_scores_under_their_filters_names() -> None:
    @register_scorer("ranked")
    class Ranked(Scorer):
        deferred = True

        def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Any]) -> list[dict[str, Any]]:
            predictions = [self.prediction(repeats[0]) for repeats in outcomes]
            return [{"seen": float(prediction == "four")} for prediction in predictions]

    filters = [
        {"name": "raw", "filter": [{"function": "take_first"}]},
        {"name": "low", "filter": [{"function": "lowercase"}, {"function": "take_first"}]},
    ]
    assert scores(run("FOUR", scorer="ranked", filter_list=filters)) == {"seen,raw": 0.0, "seen,low": 1.0}


def test_unknown_scorer_and_unknown_argument() -> None:
    with pytest.raises(ConfigError, match="unknown scorer 'first_tokne'; did you mean 'first_token'"):
        run("4", scorer="first_tokne")
    with pytest.raises(ConfigError, match="unexpected keyword argument 'patern'"):
        run("4", scorer={"type": "regex", "kwargs": {"patern": "x"}})


@pytest.mark.parametrize(
    ("scorer", "text", "expected"),
    [
        ("first_token", " 4. That is it", 0.25),
        ("regex", "2 + 2\n#### 4", 0.25),
        ("final_answer", "So the final answer is 4.", 0.25),
        ({"type": "choice_match", "kwargs": {"labels": ["2", "4", "6", "8"]}}, "The answer is 4.", 0.25),
        ("first_token", "", 0.0),
    ],
)
def test_built_in_scorers_in_a_task(scorer: Any, text: str, expected: float) -> None:
    results = scores(run(text or "...", scorer=scorer))
    assert results == {"exact_match,none": expected, "invalid,none": float(not text), "truncated,none": 0.0}
