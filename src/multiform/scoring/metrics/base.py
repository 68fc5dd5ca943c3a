"""Metrics: a value for each document, and how the values of many become one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.formats import OutputType
from multiform.registry import Registry
from multiform.scoring.outcome import Outcome
from multiform.scoring.statistics import Estimate, estimate_of, mean_estimate, ratio_estimate

MetricFn = Callable[..., Any]
Aggregation = Callable[[Sequence[Any]], Estimate]

aggregations: Registry[Aggregation] = Registry("aggregation")
metrics: Registry[Metric] = Registry("metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, with the arguments that a task gives it."""

    name: str
    fn: MetricFn
    output_types: frozenset[str]
    aggregation: Aggregation
    higher_is_better: bool = True
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, outcome: Outcome) -> Any:
        return self.fn(outcome, **self.kwargs)


def register_metric(
    metric: str,
    *,
    output_type: OutputType | Sequence[OutputType],
    aggregation: str = "mean",
    higher_is_better: bool = True,
) -> Callable[[MetricFn], MetricFn]:
    """Register a function of an outcome as a metric.

    >>> @register_metric("doctest_first", output_type="multiple_choice")
    ... def first(outcome): return float(0 in outcome.gold)
    >>> metrics.get("doctest_first").higher_is_better
    True
    """
    types = [output_type] if isinstance(output_type, str) else output_type

    def decorate(fn: MetricFn) -> MetricFn:
        entry = Metric(
            name=metric,
            fn=fn,
            output_types=frozenset(types),
            aggregation=aggregations.get(aggregation),
            higher_is_better=higher_is_better,
        )
        metrics.register(metric)(entry)
        return fn

    return decorate


def build_metric(spec: Mapping[str, Any]) -> Metric:
    """A registered metric with what a `metric_list` entry says about it."""
    name = spec["metric"]
    if name not in metrics:
        raise ConfigError(f"unknown metric '{name}'", hint=nearest(str(name), metrics, listed="metrics"))
    base = metrics.get(name)
    known = ("metric", "aggregation", "reduction", "higher_is_better", "kwargs")
    kwargs = {**(spec.get("kwargs") or {}), **{key: value for key, value in spec.items() if key not in known}}
    better = spec.get("higher_is_better")
    return Metric(
        name=name,
        fn=base.fn,
        output_types=base.output_types,
        aggregation=_aggregation(spec.get("aggregation"), base.aggregation),
        higher_is_better=base.higher_is_better if better is None else better,
        kwargs=kwargs,
    )


def _aggregation(given: str | Callable[..., Any] | None, default: Aggregation) -> Aggregation:
    if given is None:
        return default
    if isinstance(given, str):
        if given not in aggregations:
            raise ConfigError(f"unknown aggregation '{given}'", hint=nearest(given, aggregations))
        return aggregations.get(given)
    function = given
    return lambda items: estimate_of(function(items), items)


aggregations.register("mean")(mean_estimate)


@aggregations.register("bits_per_byte")
def bits_per_byte(items: Sequence[tuple[float, float]]) -> Estimate:
    """Bits per byte over all documents, from pairs of log-likelihood and number of bytes."""
    return ratio_estimate(items, scale=-1 / math.log(2))
