"""Aggregations of values that are missing, all alike or without an error."""

from __future__ import annotations

import math

import pytest

from multiform.errors import DataError
from multiform.scoring.aggregations import aggregations, group_scores
from multiform.statistics.estimates import Estimate

NAN = math.nan


def test_resamples_without_any_value_do_not_make_the_standard_error_of_nanmean_unknown() -> None:
    estimate = aggregations.get("nanmean")([1.0, 0.0, NAN, NAN, NAN], 1000)
    assert estimate.value == 0.5
    assert estimate.stderr == pytest.approx(0.387, abs=0.001)


def test_the_error_of_a_perplexity_is_unknown_if_its_value_is() -> None:
    estimate = aggregations.get("perplexity")([-1.0, NAN, -2.0], 1000)
    assert estimate.stderr is not None
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.stderr)


@pytest.mark.parametrize(("gold", "low", "high"), [(1, 0.51, 1.0), (0, 0.0, 0.49)])
def test_an_f1_without_any_mistake_or_hit_is_not_certain(gold: int, low: float, high: float) -> None:
    estimate = aggregations.get("f1")([(gold, 1)] * 4, 1000)
    assert estimate.stderr == 0
    assert estimate.interval == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize(
    ("pairs", "correlation"),
    [
        ([(0, 0), (1, 1)], 1.0),
        ([(0, 1), (1, 0)], -1.0),
        ([(2, 2), (1, 1), (0, 2), (1, 1), (2, 0), (1, 0), (0, 0)], 0.375),
        ([(1, 1), (1, 1)], 0.0),
    ],
)
def test_matthews_correlation_is_that_of_scikit_learn_to_the_last_digit(
    pairs: list[tuple[int, int]], correlation: float
) -> None:
    assert aggregations.get("matthews_corrcoef")(pairs, 0).value == correlation


@pytest.mark.parametrize("returned", [None, "high"])
def test_a_groups_own_aggregation_that_returns_no_number_is_named(returned: object) -> None:
    def broken(scores: list[float], sizes: list[int], weight_by_size: bool) -> object:
        return returned

    tasks = [{"acc,none": Estimate(value=0.5, n=3)}]
    with pytest.raises(DataError, match=r"broken' of a group failed: .*; call it as aggregation\(scores, sizes"):
        group_scores([{"metric": "acc", "aggregation": broken}], tasks)


def test_a_group_of_tasks_without_any_value_has_no_score() -> None:
    scores = group_scores([{"metric": "acc"}], [{"acc,none": Estimate(value=NAN, n=0)}])
    assert math.isnan(scores["acc,none"].value)


def test_the_interval_of_a_brier_score_is_not_below_zero():
    estimate = aggregations.get("brier_score")([0.01, 0.0, 1.2], 0)
    assert estimate.low == 0.0
    assert estimate.value == pytest.approx(1.21 / 3)
