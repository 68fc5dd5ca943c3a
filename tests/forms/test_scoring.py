"""Which metrics a task gets, and what is noted about them."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, TaskConfig, UsageError
from multiform.formats.base import OutputType
from multiform.forms.scoring import build_scoring
from multiform.scoring.metrics.base import HubMetric
from multiform.scoring.outcome import TextOutcome


def scoring(output_type: OutputType, *metrics: Any):
    return build_scoring(TaskConfig(task="t", output_type=output_type, metric_list=list(metrics)))


def share(items: list[Any]) -> float:
    return float(sum(gold == made for gold, made in items) / len(items))


def test_arguments_of_a_metric_of_choices_are_ignored_and_noted():
    made = scoring("multiple_choice", {"metric": "f1", "aggregation": share, "average": "weighted"})
    assert made.scorers[0].metrics[0].kwargs == {}
    assert [note.what for note in made.notes] == ["metric 'f1' has no argument 'average', and it is ignored"]


def test_arguments_of_a_metric_of_texts_are_checked():
    with pytest.raises(ConfigError, match="metric 'exact_match' has no argument 'average'"):
        scoring("generate_until", {"metric": "exact_match", "average": "weighted"})


@pytest.mark.parametrize("name", ["acc", "f1", "bleu"])
def test_an_aggregation_of_the_task_gets_pairs_of_reference_and_text(name):
    [metric] = scoring("generate_until", {"metric": name, "aggregation": share, "ignore_case": True}).scorers[0].metrics
    values = [metric(TextOutcome(prediction=text, references=("a",))) for text in ("a", "b")]
    assert values == [["a", "a"], ["a", "b"]]
    assert metric.aggregation(values, 0).value == 0.5


@pytest.mark.parametrize("name", ["acc", "f1"])
def test_a_metric_of_choices_with_its_own_aggregation_is_none_of_texts(name):
    with pytest.raises(ConfigError, match=f"metric {name} does not fit output_type generate_until"):
        scoring("generate_until", {"metric": name})


def test_a_metric_of_evaluate_is_taken_where_a_text_is_scored(monkeypatch):
    evaluate = pytest.importorskip("evaluate")

    class Loaded:
        def __init__(self, name: str) -> None:
            self.name = name

        def compute(self, references: list[str], predictions: list[str], average: str) -> dict[str, float]:
            return {self.name: float(references == predictions and average == "micro")}

    monkeypatch.setattr(evaluate, "load", Loaded)
    given = {"metric": "f1", "hf_evaluate": True, "average": "micro"}
    [metric] = scoring("generate_until", given).scorers[0].metrics
    assert isinstance(metric.fn, HubMetric)
    with pytest.raises(UsageError, match="runs code that the library evaluate fetches from the hub"):
        metric(TextOutcome(prediction="a", references=("a",)))
    metric.fn.load()
    assert metric(TextOutcome(prediction="a", references=("a",))) == {"f1": 1.0}
    assert scoring("multiple_choice", given).scorers[0].metrics[0].output_types == {"multiple_choice"}


def test_a_metric_that_evaluate_does_not_have_is_an_error(monkeypatch):
    evaluate = pytest.importorskip("evaluate")

    def load(name: str) -> None:
        raise FileNotFoundError(f"no {name}")

    monkeypatch.setattr(evaluate, "load", load)
    with pytest.raises(ConfigError, match="metric 'wer' is not one of the library evaluate that can be loaded"):
        HubMetric("wer").load()


@pytest.mark.parametrize("name", ["./wer", "../wer", "/tmp/wer", "a/b/c", "wer/", "", ".."])
def test_a_metric_of_the_hub_is_no_path(name):
    with pytest.raises(ConfigError, match="is not a name on the hub"):
        scoring("generate_until", {"metric": name, "hf_evaluate": True})


def test_a_folder_here_is_not_taken_for_a_metric_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wer").mkdir()
    with pytest.raises(ConfigError, match="there is a file or folder 'wer' here"):
        scoring("generate_until", {"metric": "wer", "hf_evaluate": True})
