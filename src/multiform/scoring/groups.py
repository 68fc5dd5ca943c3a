"""The scores of a group: aggregates over its tasks, with the standard errors of lm-eval 0.4.13."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.statistics.estimates import Estimate, normal_estimate

Scores = Mapping[str, Estimate]


def group_scores(aggregate_metric_list: Sequence[Mapping[str, Any]], tasks: Sequence[Scores]) -> dict[str, Estimate]:
    """Aggregate the scores of a group's tasks, each metric over the tasks that have it.

    An entry of `aggregate_metric_list` has a `metric` (``all`` for each that the tasks have), and optionally a
    `filter_list` (by default all filters), an `aggregation` ("mean" or a function) and `weight_by_size` (by
    default true).
    """
    scores_by_key: dict[str, Estimate] = {}
    for entry in aggregate_metric_list:
        for key in _keys(entry, tasks):
            scores_by_key[key] = _combined(entry, [scores[key] for scores in tasks if key in scores])
    return scores_by_key


def _keys(entry: Mapping[str, Any], tasks: Sequence[Scores]) -> list[str]:
    names = entry.get("filter_list")
    filter_names = [names] if isinstance(names, str) else names
    present = dict.fromkeys(key for scores in tasks for key in scores)
    chosen = [key for key in present if entry["metric"] in ("all", key.partition(",")[0])]
    return chosen if filter_names is None else [key for key in chosen if key.partition(",")[2] in filter_names]


def _combined(entry: Mapping[str, Any], estimates: Sequence[Estimate]) -> Estimate:
    by_size = entry.get("weight_by_size", True)
    total = sum(estimate.n for estimate in estimates)
    value = _aggregation(entry.get("aggregation", "mean"))(estimates, by_size)
    errors = [estimate.stderr for estimate in estimates]
    if any(error is None for error in errors):
        return Estimate(value=value, n=total)
    known = [error for error in errors if error is not None]
    stderr = _pooled(known, [e.n for e in estimates]) if by_size else _unweighted(known)
    return normal_estimate(value, stderr, total)


def _aggregation(aggregation: Any) -> Callable[[Sequence[Estimate], bool], float]:
    if aggregation == "mean":
        return _mean
    if callable(aggregation):
        return lambda estimates, by_size: float(
            aggregation([e.value for e in estimates], [e.n for e in estimates], weight_by_size=by_size)
        )
    raise ConfigError(
        f"aggregation: expected 'mean' or a function, got {shorten(aggregation)}", hint="write aggregation: mean"
    )


def _mean(estimates: Sequence[Estimate], by_size: bool) -> float:
    weights = [estimate.n if by_size else 1 for estimate in estimates]
    return math.fsum(e.value * w for e, w in zip(estimates, weights, strict=True)) / sum(weights)


def _pooled(errors: Sequence[float], sizes: Sequence[int]) -> float | None:
    """The standard error of the mean over all documents, from the pooled variance of the tasks."""
    freedom = sum(sizes) - len(sizes)
    if freedom <= 0:
        return None
    squares = math.fsum((n - 1) * error**2 * n for error, n in zip(errors, sizes, strict=True))
    return math.sqrt(squares / freedom / sum(sizes))


def _unweighted(errors: Sequence[float]) -> float:
    """The standard error of the plain mean of independent means."""
    return math.sqrt(math.fsum(error**2 for error in errors)) / len(errors)
