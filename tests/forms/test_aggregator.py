"""FormAggregator: from the values of documents to scores."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from multiform import Form, Sample, ScoredSample, Task


def results(*values: dict[str, Any]) -> list[ScoredSample]:
    return [
        ScoredSample(sample=Sample(doc_id=i, doc={}), outputs=(), scorer="none", filtered=(), values=value)
        for i, value in enumerate(values)
    ]


def test_a_score_is_the_mean_of_its_documents(config):
    estimates = Form(config()).aggregator.estimates(results({"acc": 1.0}, {"acc": 0.0}), 0)
    assert (estimates["acc,none"].value, estimates["acc,none"].n) == (0.5, 2)


def test_a_metric_that_leaves_documents_out_is_said_once(config, caplog):
    aggregator = Form(config()).aggregator
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            aggregator.estimates(results({"acc": 1.0, "f": 1.0}, {"acc": 0.0}), 0)
    assert caplog.messages == ["facts: 'f' is over 1 of 2 documents, as the others have no value of that name"]


def test_texts_beside_the_scores_are_no_scores(config):
    assert list(Form(config()).aggregator.estimates(results({"acc": 1.0, "note": "well"}), 0)) == ["acc,none"]


def test_failed_documents_get_the_worst_value_and_bounds_say_what_they_may_change(config):
    aggregator, scored = Form(config()).aggregator, results({"acc": 1.0}, {"acc": 1.0})
    (failed,) = aggregator.count_wrong([(Sample(doc_id=2, doc={}), "timeout")], scored)
    assert (failed.values, failed.failure) == ({"acc": 0.0}, "timeout")
    assert aggregator.bounds(scored, 2) == {"acc,none": (0.5, 1.0)}


def test_the_aggregation_of_a_class_comes_first(config):
    class Largest(Task):
        def aggregation(self) -> Any:
            return {"acc": max}

    aggregator = Largest(config()).form.aggregator
    assert aggregator.estimates(results({"acc": 1.0}, {"acc": 0.0}), 0)["acc,none"].value == 1.0


def test_the_first_score_is_known_without_bootstrapping(config):
    key, estimate = Form(config()).aggregator.first_estimate(results({"acc": 1.0})) or ("", None)
    assert key == "acc"
    assert estimate is not None
    assert estimate.value == pytest.approx(1.0)
