"""What `process_results` may return: values, lists of values, or None, for all documents or for some."""

from __future__ import annotations

import logging
import math
import statistics
from dataclasses import dataclass
from typing import ClassVar

import pytest

from multiform import ConfigError, DataError, evaluate, register_scorer
from multiform.forms import MultipleChoiceTask
from multiform.scoring.scorers import Scorer, scorers


def score(task, model, key, **options):
    return evaluate(tasks=[task], model=model, bootstrap_iters=0, **options)["facts"][key]


def scores(task, model, **options):
    found = evaluate(tasks=[task], model=model, bootstrap_iters=0, **options)["facts"]
    return {key: value for key, value in found.items() if "," in key and "_stderr" not in key}


# Lists of values


@pytest.mark.parametrize(
    ("aggregation", "value"),
    [
        ("mean", 2.5),
        ("nanmean", 2.5),
        ("median", 3.0),
        ("perplexity", math.exp(-2.5)),
        (lambda items: sum(map(sum, items)), 18.0),
    ],
)
def test_lists_of_numbers_go_with_every_aggregation(choosing, liking, aggregation, value):
    values = iter([[1.0, 5.0], [2.0], [3.0, 1.0], [4.0, 2.0]])
    task = choosing(
        process_results=lambda doc, results: {"n": next(values)},
        metric_list=[{"metric": "n", "aggregation": aggregation}],
    )
    assert score(task, liking("yes"), "n,none") == pytest.approx(value)


@pytest.mark.parametrize(
    ("aggregation", "pair"),
    [
        ("f1", lambda doc: (doc["answer"], 1)),
        ("matthews_corrcoef", lambda doc: (doc["answer"], doc["answer"])),
        ("weighted_perplexity", lambda doc: (-2.0, 4.0)),
        ("bits_per_byte", lambda doc: (-2.0, 4.0)),
        ("brier_score", lambda doc: (doc["answer"], [0.5, 0.5])),
        ("bleu", lambda doc: (doc["question"], "Can fish fly?")),
    ],
)
@pytest.mark.parametrize("written", [tuple, list, lambda pair: [tuple(pair)], lambda pair: [list(pair), list(pair)]])
def test_pairs_are_one_value_and_lists_of_pairs_are_repeats(choosing, liking, aggregation, pair, written):
    def made(process_results):
        listed = [{"metric": "m", "aggregation": aggregation}]
        return choosing(process_results=process_results, metric_list=listed)

    expected = score(made(lambda doc, results: {"m": pair(doc)}), liking("yes"), "m,none")
    assert score(made(lambda doc, results: {"m": written(pair(doc))}), liking("yes"), "m,none") == expected


def test_a_reduction_that_is_named_reduces_lists_for_a_function_too(choosing, liking):
    task = choosing(
        process_results=lambda doc, results: {"n": [1.0, 2.0]},
        metric_list=[{"metric": "n", "reduction": "max", "aggregation": sum}],
    )
    assert score(task, liking("yes"), "n,none") == 8.0


@pytest.mark.parametrize(
    ("aggregation", "value"),
    [
        (lambda items: sum(1 for item in items if item) / len(items), 0.5),
        (lambda items: sum(item == 1.0 for item in items), 2.0),
        (max, 1.0),
        (lambda items: sum(item[0] for item in items), 2.0),
    ],
    ids=["truth", "equality", "max", "a_function_of_lists"],
)
def test_a_list_of_one_number_is_that_number_for_a_function_that_takes_numbers(choosing, liking, aggregation, value):
    task = choosing(
        process_results=lambda doc, results: {"n": [float(doc["answer"])]},
        metric_list=[{"metric": "n", "aggregation": aggregation}],
    )
    assert score(task, liking("yes"), "n,none") == value


def test_a_function_that_cannot_aggregate_lists_gets_the_first_of_the_repeats(choosing, liking):
    task = choosing(
        process_results=lambda doc, results: {"n": [float(doc["answer"]), 7.0]},
        metric_list=[{"metric": "n", "aggregation": max}],
    )
    assert score(task, liking("yes"), "n,none") == 1.0


def test_an_aggregation_method_gets_lists_as_they_are(fields, liking):
    class Own(MultipleChoiceTask):
        def process_results(self, doc, results):
            return {"n": [1.0, 2.0]}

        def aggregation(self):
            return {"n": lambda items: sum(map(sum, items))}

    assert score(Own(fields), liking("yes"), "n,none") == 12.0


def test_an_empty_list_is_an_error_that_names_the_document(choosing, liking):
    task = choosing(process_results=lambda doc, results: {"n": [] if doc["answer"] else [1.0]})
    with pytest.raises(DataError, match="doc 1: process_results gave metric 'n' an empty list"):
        score(task, liking("yes"), "n,none")


@pytest.mark.parametrize("value", [None, {"a": 1}, "yes", [None]])
def test_a_value_that_is_no_number_is_an_error_at_its_document(choosing, liking, value):
    task = choosing(process_results=lambda doc, results: {"n": value}, metric_list=[{"metric": "n"}])
    with pytest.raises(DataError, match="doc 0: metric 'n' has the value"):
        score(task, liking("yes"), "n,none")


def test_a_value_beside_the_metric_list_is_averaged_and_not_aggregated_like_the_only_metric(choosing, liking):
    task = choosing(
        process_results=lambda doc, results: {"f1": (doc["answer"], 1), "length": len(doc["question"])},
        metric_list=[{"metric": "f1"}],
    )
    found = scores(task, liking("yes"))
    assert found["length,none"] == statistics.mean([13, 14, 13, 14])
    assert found["f1,none"] == pytest.approx(2 / 3)


# None


def test_none_leaves_every_document_to_the_metrics(choosing, liking):
    expected = scores(choosing(), liking("yes"))
    assert scores(choosing(process_results=lambda doc, results: None), liking("yes")) == expected
    assert set(expected) == {"acc,none", "acc_norm,none"}


def test_none_for_some_documents_leaves_these_to_the_metrics(choosing, liking):
    def sometimes(doc, results):
        return {"acc": 5.0} if doc["question"].startswith("Can") else None

    listed = choosing(process_results=sometimes, metric_list=[{"metric": "acc"}])
    assert score(listed, liking("yes"), "acc,none") == (5.0 + 1.0 + 0.0 + 1.0) / 4
    assert score(choosing(process_results=sometimes), liking("yes"), "acc,none") == (5.0 + 1.0 + 0.0 + 1.0) / 4


def test_none_leaves_written_texts_to_the_metrics(writing, saying):
    def sometimes(doc, results):
        return None if doc["question"].startswith("Is") else {"exact_match": 0.5}

    assert score(writing(process_results=sometimes), saying("no"), "exact_match,none") == (0.5 + 0 + 1 + 0.5) / 4


def test_none_with_repeats_reduces_what_the_metrics_compute(writing, saying):
    task = writing(
        repeats=2,
        process_results=lambda doc, results: None,
        metric_list=[{"metric": "exact_match", "reduction": "mean"}],
    )
    assert score(task, saying("no", "yes"), "exact_match,none") == 0.5


def test_a_metric_with_an_aggregation_of_its_own_keeps_it_after_none(choosing, liking):
    def sometimes(doc, results):
        return {"other": 1.0} if doc["question"].startswith("Can") else None

    task = choosing(process_results=sometimes, metric_list=[{"metric": "f1"}])
    assert score(task, liking("yes"), "f1,none") == pytest.approx(4 / 5)


def test_none_where_a_metric_cannot_be_computed_says_so(choosing, liking):
    task = choosing(process_results=lambda doc, results: None, metric_list=[{"metric": "mine"}])
    with pytest.raises(DataError, match="process_results returned None, and the metrics cannot be computed instead"):
        score(task, liking("yes"), "mine,none")


def test_documents_without_a_value_are_told(choosing, liking, caplog):
    def some(doc, results):
        return {"acc": 1.0, "rare": 1.0} if doc["answer"] else {"acc": 0.0}

    with caplog.at_level(logging.WARNING, logger="multiform"):
        assert score(choosing(process_results=some), liking("yes"), "rare,none") == 1.0
    assert "facts: 'rare' is over 2 of 4 documents" in caplog.text


def test_a_metric_that_nothing_is_returned_for_is_told(choosing, liking, caplog):
    task = choosing(process_results=lambda doc, results: {"accuracy": 1.0}, metric_list=[{"metric": "acc"}])
    with caplog.at_level(logging.WARNING, logger="multiform"):
        score(task, liking("yes"), "accuracy,none")
    assert "metric 'acc' has no score" in caplog.text


def test_a_scorer_of_all_documents_gets_those_that_process_results_leaves(writing, saying, monkeypatch):
    monkeypatch.setattr(scorers, "_entries", dict(scorers._entries))

    @register_scorer("counting")
    @dataclass(kw_only=True, eq=False)
    class Counting(Scorer):
        deferred: ClassVar[bool] = True

        def score_instances(self, outcomes, docs):
            return [{"n": float(len(docs))} for _ in docs]

    task = writing(scorer="counting", process_results=lambda doc, results: {"n": 0.0} if doc["answer"] else None)
    assert score(task, saying("no"), "n,none") == (2.0 + 0.0 + 2.0 + 0.0) / 4


# Wrong functions


def test_a_function_with_other_arguments_is_refused_before_anything_is_asked(choosing):
    with pytest.raises(ConfigError, match=r"process_results: .*cannot be called with a document and its results"):
        choosing(process_results=lambda doc: {})


def test_an_override_that_fails_is_named(fields, liking):
    class Own(MultipleChoiceTask):
        def process_results(self, doc, results):
            return {"acc": doc["missing"]}

    with pytest.raises(DataError, match="doc 0: process_results failed: KeyError: 'missing'"):
        score(Own(fields), liking("yes"), "acc,none")


def test_an_override_that_returns_no_mapping_is_named(fields, liking):
    class Own(MultipleChoiceTask):
        def process_results(self, doc, results):
            return 1.0

    with pytest.raises(DataError, match="process_results returned float, not a mapping of metrics"):
        score(Own(fields), liking("yes"), "acc,none")
