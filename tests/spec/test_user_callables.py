"""Functions and classes of users with a wrong signature or a wrong return value: errors that name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from multiform import (
    ConfigError,
    DataError,
    evaluate,
    register_filter,
    register_metric,
    register_sampler,
    register_scorer,
)
from multiform.forms import MultipleChoiceTask, samplers
from multiform.forms.samplers import Sampler
from multiform.scoring.aggregations import register_aggregation
from multiform.scoring.filters import filters
from multiform.scoring.metrics import metrics
from multiform.scoring.reductions import reductions, register_reduction
from multiform.scoring.scorers import Scorer, scorers


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    """All registries, put back as they were after the test."""
    for registry in (metrics, filters, scorers, samplers, reductions):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


def run(task, model):
    return evaluate(tasks=[task], model=model, bootstrap_iters=0)


# Signatures, before anything is asked


def no_arguments():
    return 1.0


def three(first, second, third):
    return 1.0


@pytest.mark.parametrize("function", [no_arguments, three])
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (lambda function: {"metric": function}, r"metric_list\.0: metric '{name}' cannot be called"),
        (
            lambda function: {"metric": "exact_match", "aggregation": function},
            r"metric_list\.0: aggregation '{name}' cannot be called with the list of all values",
        ),
        (
            lambda function: {"metric": "exact_match", "reduction": function},
            r"metric_list\.0: reduction '{name}' cannot be called with the list of a document's values",
        ),
    ],
    ids=["metric", "aggregation", "reduction"],
)
def test_a_function_of_a_metric_list_that_cannot_be_called_is_refused(writing, function, entry, message):
    with pytest.raises(ConfigError, match=message.format(name=function.__name__)):
        writing(metric_list=[entry(function)])


def test_a_registered_metric_that_lacks_an_argument_is_refused(choosing):
    @register_metric("margin", output_type="multiple_choice")
    def margin(outcome, least):
        return 1.0

    with pytest.raises(ConfigError, match=r"metric 'margin' cannot be called .*missing a required argument: 'least'"):
        choosing(metric_list=[{"metric": "margin"}])
    choosing(metric_list=[{"metric": "margin", "least": 0.1}])


def test_a_registered_aggregation_and_reduction_that_cannot_be_called_are_refused(writing):
    with pytest.raises(ConfigError, match="aggregation 'no_arguments' cannot be called"):
        register_aggregation("wrong")(no_arguments)  # type: ignore[arg-type]
    register_reduction("none_at_all")(no_arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="reduction 'none_at_all' cannot be called"):
        writing(metric_list=[{"metric": "exact_match", "reduction": "none_at_all"}])


def test_a_scorer_that_is_no_scorer_is_refused(writing):
    register_scorer("function")(no_arguments)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="scorer: scorer 'function' is no_arguments, which is not a subclass of Scorer"
    ):
        writing(scorer="function")


@pytest.mark.parametrize("method", ["score", "score_instances"])
def test_a_scorer_whose_method_cannot_be_called_is_refused(writing, method):
    register_scorer("wrong")(type("Wrong", (Scorer,), {method: lambda self: {}}))
    with pytest.raises(ConfigError, match=rf"scorer 'wrong': Wrong\.{method} cannot be called"):
        writing(scorer="wrong")


def test_a_scorer_that_cannot_be_made_is_refused(writing):
    @register_scorer("picky")
    @dataclass(kw_only=True, eq=False)
    class Picky(Scorer):
        def __post_init__(self) -> None:
            raise ValueError("not today")

    with pytest.raises(ConfigError, match="scorer: scorer Picky failed: ValueError: not today"):
        writing(scorer="picky")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: lambda outputs: outputs,
            "filter 'mine': its function cannot be called with the outputs",
        ),
        (lambda: type("F", (), {"apply": lambda self: []})(), "filter 'mine': its apply cannot be called"),
        (lambda: 3, "filter 'mine' is of type int"),
    ],
)
def test_a_filter_that_cannot_be_called_is_refused(writing, made, message):
    register_filter("mine")(made)
    with pytest.raises(ConfigError, match=message):
        writing(filter_list=[{"name": "x", "filter": [{"function": "mine"}]}])


class NoExclusion(Sampler):
    def sample(self, n):  # type: ignore[override]
        return list(range(n))


class NoSeed(Sampler):
    def __init__(self, pool):
        self.pool = pool

    def sample(self, n, *, exclude=None):
        return list(range(n))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoExclusion, r"sampler 'mine': NoExclusion\.sample cannot be called: got an unexpected keyword argument"),
        (NoSeed, r"sampler 'mine': NoSeed\.__init__ cannot be called"),
        (no_arguments, "sampler 'mine' is no_arguments, which is not a subclass of Sampler"),
    ],
)
def test_a_sampler_that_cannot_be_called_is_refused(choosing, kind, message):
    register_sampler("mine")(kind)
    with pytest.raises(ConfigError, match=rf"fewshot_config\.sampler: {message}"):
        choosing(fewshot_config={"sampler": "mine"})


# Return values


class Drawing(Sampler):
    drawn: ClassVar[Any] = None

    def sample(self, n, *, exclude=None):
        return self.drawn


@pytest.mark.parametrize("drawn", [None, [0], [0, 1, 2], [0, 99], [0, -1], ["a", "b"], 7])
def test_a_sampler_that_draws_no_indexes_of_its_pool_is_named(choosing, drawn):
    register_sampler("mine")(type("Mine", (Drawing,), {"drawn": drawn}))
    task = choosing(fewshot_config={"sampler": "mine"}, num_fewshot=2)
    with pytest.raises(DataError, match=r"Mine drew .* for 2 examples of 6 documents"):
        task.build_all_requests()


def test_a_sampler_that_fails_is_named(choosing):
    class Failing(Sampler):
        def sample(self, n, *, exclude=None):
            return self.no_such_thing  # type: ignore[attr-defined]

    register_sampler("failing")(Failing)
    task = choosing(fewshot_config={"sampler": "failing"}, num_fewshot=2)
    with pytest.raises(ConfigError, match=r"fewshot_config\.sampler: doc 0: sampler 'failing' failed: AttributeError"):
        task.build_all_requests()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"metric": lambda references, predictions: None}, "metric '<lambda>' has the value None, not a number"),
        ({"metric": lambda references, predictions: "no"}, "metric '<lambda>' has the value 'no', not a number"),
        ({"metric": "exact_match", "aggregation": lambda v: None}, r"aggregation '.*<lambda>' returned None"),
        (
            {"metric": "exact_match", "aggregation": lambda v: v},
            r"aggregation '.*<lambda>' returned \[.*, not a",
        ),
        ({"metric": "exact_match", "reduction": lambda v: None}, r"reduction '.*<lambda>' returned None"),
        ({"metric": "exact_match", "reduction": lambda v: v}, r"metric 'exact_match' has the value \[1\.0, 1\.0\]"),
        ({"metric": "exact_match", "reduction": lambda v: v.mean()}, r"reduction '.*<lambda>' failed: AttributeError"),
    ],
)
def test_a_wrong_value_of_a_function_of_a_metric_list_is_named(writing, saying, entry, message):
    with pytest.raises(DataError, match=f"metric_list.*{message}"):
        run(writing(repeats=2, metric_list=[entry]), saying("no"))


def test_a_registered_metric_that_fails_is_named(choosing, liking):
    @register_metric("broken", output_type="multiple_choice")
    def broken(outcome):
        return outcome.no_such_thing

    with pytest.raises(DataError, match="metric_list: doc 0: metric 'broken' failed: AttributeError"):
        run(choosing(metric_list=[{"metric": "broken"}]), liking("yes"))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r"scorer Mine\.score returned None; return a dict of values"),
        (1.0, r"scorer Mine\.score returned 1\.0"),
        ({"close": []}, r"metric 'close' has the value \[\], not a number"),
    ],
)
def test_a_wrong_value_of_a_scorer_is_named(writing, saying, returned, message):
    register_scorer("mine")(type("Mine", (Scorer,), {"score": lambda self, outcome: returned}))
    with pytest.raises(DataError, match=message):
        run(writing(scorer="mine"), saying("no"))


def test_a_scorer_that_fails_is_named(writing, saying):
    register_scorer("mine")(type("Mine", (Scorer,), {"score": lambda self, outcome: outcome.missing}))
    with pytest.raises(DataError, match=r"facts: scorer: doc 0: scorer Mine\.score failed: AttributeError"):
        run(writing(scorer="mine"), saying("no"))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r"scorer Mine\.score_instances returned None"),
        ([{"n": 1.0}], r"scorer Mine\.score_instances returned 1 results for 4 documents"),
        ([1.0] * 4, r"scorer Mine\.score_instances returned \[1\.0"),
    ],
)
def test_a_scorer_of_all_documents_waits_for_them_and_its_wrong_values_are_named(writing, saying, returned, message):
    register_scorer("mine")(type("Mine", (Scorer,), {"score_instances": lambda self, outcomes, docs: returned}))
    with pytest.raises(DataError, match=message):
        run(writing(scorer="mine"), saying("no"))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda resps, docs: None, r"filter '.*<lambda>': .*returned None"),
        (lambda resps, docs: "text", r"filter '.*<lambda>': .*returned 'text'"),
        (lambda resps, docs: [[], []], r"returned 2 results for 1 document"),
        (lambda resps, docs: [[]], r"the filters of 'x' left no response to score"),
        (lambda resps, docs: resps[5], r"filter '.*<lambda>' failed: IndexError"),
    ],
)
def test_a_wrong_value_of_a_filter_function_is_named(writing, saying, function, message):
    task = writing(filter_list=[{"name": "x", "filter": [{"function": function}]}])
    with pytest.raises(DataError, match=message):
        run(task, saying("no"))


@pytest.mark.parametrize("returned", [None, "no", 5, {"a": 1}])
def test_a_registered_filter_that_returns_no_list_is_named(writing, saying, returned):
    register_filter("mine")(lambda: lambda outputs, doc: returned)
    task = writing(filter_list=[{"name": "x", "filter": [{"function": "mine"}]}])
    with pytest.raises(DataError, match=r"filter_list: doc 0: filter 'mine' returned .*, not a list of outputs"):
        run(task, saying("no"))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None, not a mapping of functions"),
        ({"acc": "mean"}, "not a mapping of functions"),
        ({"acc": no_arguments}, "aggregation 'no_arguments' cannot be called"),
    ],
)
def test_a_wrong_value_of_an_aggregation_method_is_named(fields, liking, returned, message):
    class Own(MultipleChoiceTask):
        def aggregation(self):
            return returned

    with pytest.raises((ConfigError, DataError), match=message):
        run(Own(fields), liking("yes"))
