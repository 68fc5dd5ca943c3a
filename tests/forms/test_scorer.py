"""FormScorer: from responses to the values of each metric."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import DataError, Form, RunSettings
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
