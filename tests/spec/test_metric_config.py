"""Every key of an entry of `metric_list`, by the score that comes out."""

from __future__ import annotations

import math

import pytest

from multiform import ConfigError, evaluate, register_metric
from multiform.results.export import to_json
from multiform.scoring.metrics import metrics


def score(task, model, key="exact_match,none", **options):
    return evaluate(tasks=[task], model=model, bootstrap_iters=0, **options)["facts"][key]


@pytest.mark.covers("MetricConfig.metric")
def test_a_registered_metric_is_named(choosing, liking):
    task = choosing(metric_list=[{"metric": "likelihood"}])
    odds = math.exp(-0.5) / (math.exp(-0.5) + math.exp(-5.0))
    assert score(task, liking("yes"), "likelihood,none", samples={"facts": [1]}) == pytest.approx(odds)


@pytest.mark.covers("MetricConfig.metric")
def test_a_metric_may_be_a_function_of_references_and_predictions(writing, saying):
    def same_length(references, predictions):
        return float(len(references[0]) == len(predictions[0]))

    assert score(writing(metric_list=[{"metric": same_length}]), saying("abc"), "same_length,none") == 0.5


@pytest.mark.covers("MetricConfig.metric")
def test_a_function_may_give_several_numbers(writing, saying):
    def lengths(references, predictions):
        return {"wanted": len(references[0]), "written": len(predictions[0])}

    task = writing(metric_list=[{"metric": lengths, "aggregation": max}])
    assert score(task, saying("word"), "wanted,none") == 3
    assert score(task, saying("word"), "written,none") == 4


@pytest.mark.covers("MetricConfig.metric")
def test_a_function_of_a_task_file_is_a_metric(write, saying):
    task = """\
task: facts
dataset_path: rows.jsonl
test_split: test
doc_to_text: q
doc_to_target: a
metric_list:
  - metric: !function utils.begins
"""
    utils = "def begins(references, predictions):\n    return float(predictions[0].startswith(references[0]))\n"
    folder = write({"facts.yaml": task, "utils.py": utils, "rows.jsonl": '{"q": "2 + 2?", "a": "4"}\n'})
    results = evaluate(tasks=str(folder / "facts.yaml"), model=saying("4, of course"))
    assert results["facts"]["begins,none"] == 1.0


@pytest.mark.covers("MetricConfig.metric")
def test_a_metric_of_ones_own_is_registered(choosing, liking, monkeypatch):
    monkeypatch.setattr(metrics, "_entries", dict(metrics._entries))

    @register_metric("margin", output_type="multiple_choice", higher_is_better=True)
    def margin(outcome):
        return max(outcome.loglikelihoods) - min(outcome.loglikelihoods)

    assert score(choosing(metric_list=[{"metric": "margin"}]), liking("yes"), "margin,none") == 4.5


@pytest.mark.covers("MetricConfig.metric")
def test_a_metric_that_does_not_fit_the_output_type_is_an_error(choosing):
    with pytest.raises(ConfigError, match=r"metric_list\.0: metric bleu does not fit output_type multiple_choice"):
        choosing(metric_list=[{"metric": "bleu"}])


@pytest.mark.covers("MetricConfig.aggregation")
@pytest.mark.parametrize(
    ("aggregation", "value"), [(None, 0.75), ("mean", 0.75), ("median", 1.0), (min, 0.0), (lambda items: len(items), 4)]
)
def test_the_aggregation_makes_one_number_of_all_documents(writing, saying, aggregation, value):
    task = writing(
        doc_to_target=lambda doc: "no" if doc["question"].startswith("Is fire") else "yes",
        metric_list=[{"metric": "exact_match", "aggregation": aggregation}],
    )
    assert score(task, saying("yes")) == value


@pytest.mark.covers("MetricConfig.aggregation")
def test_a_standard_error_goes_with_a_mean_and_not_with_a_function(writing, saying):
    def stderr(aggregation):
        task = writing(metric_list=[{"metric": "exact_match", "aggregation": aggregation}])
        return score(task, saying("yes"), "exact_match_stderr,none")

    assert stderr("mean") == pytest.approx(math.sqrt(1 / 3 / 4))
    assert stderr(max) == "N/A"


@pytest.mark.covers("MetricConfig.reduction")
@pytest.mark.parametrize(
    ("reduction", "key", "value"),
    [
        (None, "exact_match,none", 0.0),
        ("take_first", "exact_match,none", 0.0),
        ("mean", "exact_match,none", 0.5),
        ("max", "exact_match,none", 1.0),
        ("min", "exact_match,none", 0.0),
        ("majority_vote", "exact_match,none", 0.0),
        ("pass@1", "pass@1(exact_match),none", 0.5),
        ("pass@2", "pass@2(exact_match),none", 5 / 6),
        ("pass@k", "pass@3(exact_match),none", 1.0),
        (lambda values: values[-1], "exact_match,none", 0.0),
    ],
)
def test_the_reduction_makes_one_value_of_repeats(writing, saying, reduction, key, value):
    model = saying("what?", "no", "no", "never")
    task = writing(repeats=4, metric_list=[{"metric": "exact_match", "reduction": reduction}])
    assert score(task, model, key, limit=1) == pytest.approx(value)


@pytest.mark.covers("MetricConfig.reduction")
def test_pass_at_k_needs_k_repeats(writing, saying):
    task = writing(repeats=2, metric_list=[{"metric": "exact_match", "reduction": "pass@3"}])
    with pytest.raises(ConfigError, match=r"pass@3 needs 3 repeats, there are 2"):
        score(task, saying("no"))


@pytest.mark.covers("MetricConfig.higher_is_better")
def test_the_direction_is_the_metrics_own_or_the_one_given(choosing):
    listed = [{"metric": "acc"}, {"metric": "brier_score"}, {"metric": "likelihood", "higher_is_better": False}]
    results = evaluate(tasks=[choosing(metric_list=listed)], model="dummy")
    directions = {"acc": True, "brier_score": False, "likelihood": False}
    assert to_json(results)["higher_is_better"] == {"facts": directions}


@pytest.mark.covers("MetricConfig.kwargs")
@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ({}, 0.0),
        ({"kwargs": {"ignore_case": True, "ignore_punctuation": True}}, 1.0),
        ({"ignore_case": True, "ignore_punctuation": True}, 1.0),
        ({"kwargs": {"ignore_case": True}, "ignore_punctuation": True}, 1.0),
        ({"regexes_to_ignore": ["!", "N"], "kwargs": None}, 0.0),
    ],
)
def test_kwargs_and_further_keys_are_arguments_of_the_metric(writing, saying, spec, value):
    task = writing(metric_list=[{"metric": "exact_match", **spec}])
    assert score(task, saying("NO!"), limit=1) == value


@pytest.mark.covers("MetricConfig.kwargs")
def test_kwargs_reach_a_function_too(writing, saying):
    def close(references, predictions, within):
        return float(abs(len(references[0]) - len(predictions[0])) <= within)

    task = writing(metric_list=[{"metric": close, "within": 2}])
    assert score(task, saying("four"), "close,none", limit=1) == 1.0
