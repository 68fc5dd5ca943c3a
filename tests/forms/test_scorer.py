"""FormScorer: from responses to the values of each metric, and to scores."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from multiform import DataError, Form, RunSettings, Sample, ScoredSample, Task
from multiform.requests import Completion, LLOutput

YES = [LLOutput(-2.0), LLOutput(-1.0)]
GENERATING: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_choice": None,
    "doc_to_target": "{{choices[answer]}}",
    "metric_list": [{"metric": "exact_match"}],
}


def score(form: Form, outputs: Any, doc_id: int = 0) -> Any:
    return form.scorer.score(form.sample(doc_id, form.eval_docs[doc_id]), outputs)


def test_the_likeliest_choice_is_the_prediction(config):
    (wrong,), (right,) = score(Form(config()), YES, 0), score(Form(config()), YES, 1)
    assert (wrong.prediction, wrong.values["acc"], right.values["acc"]) == (1, 0.0, 1.0)


def test_a_completion_is_filtered_step_by_step(config):
    steps = [{"function": "regex", "regex_pattern": "(no|yes)"}, {"function": "take_first"}]
    (result,) = score(
        Form(config(**GENERATING, filter_list=[{"name": "word", "filter": steps}])), [Completion("I say no.")]
    )
    assert (result.scorer, result.prediction, result.values) == ("word", "no", {"exact_match": 1.0})
    assert [step.name for step in result.steps] == ["completion", "filter regex", "filter take_first"]
    assert (result.steps[0].value, result.steps[-1].value) == (["I say no."], ["no"])


def test_code_of_the_task_comes_before_the_metrics(config):
    def process(doc: Any, results: Any) -> Any:
        return {"acc": 0.25} if doc["answer"] else None

    form = Form(config(process_results=process))
    (own,), (computed,) = score(form, YES, 1), score(form, YES, 0)
    assert own.values == {"acc": 0.25}
    assert computed.values["acc"] == 0.0


def test_what_code_of_the_task_returns_is_checked(config):
    with pytest.raises(DataError, match="process_results returned float, not a mapping of metrics"):
        score(Form(config(process_results=lambda doc, results: 0.5)), YES)


def test_a_bypassed_form_computes_nothing(config):
    (result,) = score(Form(config(), RunSettings(metric="bypass")), YES)
    assert list(result.values) == ["bypass"]


def results(*values: dict[str, Any]) -> list[ScoredSample]:
    return [
        ScoredSample(sample=Sample(doc_id=i, doc={}), outputs=(), scorer="none", filtered=(), values=value)
        for i, value in enumerate(values)
    ]


def test_a_score_is_the_mean_of_its_documents(config):
    estimates = Form(config()).scorer.estimates(results({"acc": 1.0}, {"acc": 0.0}), 0)
    assert (estimates["acc,none"].value, estimates["acc,none"].n) == (0.5, 2)


def test_a_metric_that_leaves_documents_out_is_said_once(config, caplog):
    scorer = Form(config()).scorer
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            scorer.estimates(results({"acc": 1.0, "f": 1.0}, {"acc": 0.0}), 0)
    assert caplog.messages == ["facts: 'f' is over 1 of 2 documents, as the others have no value of that name"]


def test_texts_beside_the_scores_are_no_scores(config):
    assert list(Form(config()).scorer.estimates(results({"acc": 1.0, "note": "well"}), 0)) == ["acc,none"]


def test_failed_documents_get_the_worst_value_and_bounds_say_what_they_may_change(config):
    scorer, scored = Form(config()).scorer, results({"acc": 1.0}, {"acc": 1.0})
    (failed,) = scorer.count_wrong([(Sample(doc_id=2, doc={}), "timeout")], scored)
    assert (failed.values, failed.failure) == ({"acc": 0.0}, "timeout")
    assert scorer.bounds(scored, 2) == {"acc,none": (0.5, 1.0)}


def test_the_aggregation_of_a_class_comes_first(config):
    class Largest(Task):
        def aggregation(self) -> Any:
            return {"acc": max}

    scorer = Largest(config()).form.scorer
    assert scorer.estimates(results({"acc": 1.0}, {"acc": 0.0}), 0)["acc,none"].value == 1.0


def test_the_first_score_is_known_without_bootstrapping(config):
    key, estimate = Form(config()).scorer.first_estimate(results({"acc": 1.0})) or ("", None)
    assert key == "acc"
    assert estimate is not None
    assert estimate.value == pytest.approx(1.0)
