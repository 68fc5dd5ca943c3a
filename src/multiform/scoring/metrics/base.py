"""Metrics: a value for each document, and how the values of many become one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.formats import OutputType
from multiform.registry import Registry
from multiform.scoring.aggregations import Aggregation, aggregations, plain_aggregation
from multiform.scoring.outcome import Outcome
from multiform.scoring.reductions import Reduction, build_reduction, take_first

MetricFn = Callable[..., Any]

metrics: Registry[Metric] = Registry("metric")

#: Keys of a `metric_list` entry that are not arguments of the metric.
_OWN_KEYS = ("metric", "aggregation", "reduction", "higher_is_better", "kwargs", "hf_evaluate")
_ALL_TYPES = frozenset(("multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, with the arguments that a task gives it."""

    name: str
    fn: MetricFn
    output_types: frozenset[str] = _ALL_TYPES
    aggregation: Aggregation
    reduction: Reduction = take_first
    higher_is_better: bool = True
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it takes all repeats of a document at once, as a list.
    whole: bool = False

    def __call__(self, outcome: Outcome) -> Any:
        return self.fn(outcome, **self.kwargs)


def register_metric(
    metric: str,
    *,
    output_type: OutputType | Sequence[OutputType],
    aggregation: str = "mean",
    reduction: str | Reduction | None = None,
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
            reduction=build_reduction(reduction),
            higher_is_better=higher_is_better,
        )
        metrics.register(metric)(entry)
        return fn

    return decorate


def build_metric(spec: Mapping[str, Any], *, computed: bool = True) -> Metric:
    """The metric of a `metric_list` entry: registered, or a function.

    With `computed` false a task's own code gives the values, and only name and aggregation matter.
    """
    base = _base(spec["metric"], computed)
    kwargs = {**(spec.get("kwargs") or {}), **{key: value for key, value in spec.items() if key not in _OWN_KEYS}}
    if computed and not base.whole:
        _check_arguments(base, kwargs)
    better = spec.get("higher_is_better")
    return Metric(
        name=base.name,
        fn=base.fn,
        output_types=base.output_types,
        aggregation=_aggregation(spec.get("aggregation"), base.aggregation),
        reduction=base.reduction if spec.get("reduction") is None else build_reduction(spec["reduction"]),
        higher_is_better=base.higher_is_better if better is None else better,
        kwargs=kwargs,
        whole=base.whole,
    )


def _check_arguments(metric: Metric, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that the metric's function does not take."""
    taken = inspect.signature(metric.fn).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    known = list(taken)[1:]
    for pattern in kwargs.get("regexes_to_ignore") or ():
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            what = f"metric '{metric.name}': bad regular expression {pattern!r}: {error}"
            raise ConfigError(what, hint="test the pattern") from error
    for key in kwargs:
        if key not in known:
            what = f"metric '{metric.name}' has no argument '{key}'"
            raise ConfigError(what, hint=nearest(key, known, listed="its arguments are"))


def value_metric(name: str) -> Metric:
    """A metric whose values a task's own code gives; their mean is taken."""

    def given(outcome: Outcome, **kwargs: Any) -> Any:
        raise ConfigError(f"metric '{name}' is not registered", hint="return it from process_results")

    return Metric(name=name, fn=given, aggregation=aggregations.get("mean"))


def _base(given: Any, computed: bool) -> Metric:
    from multiform.scoring.metrics.callables import callable_metric

    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return Metric(name=name, fn=callable_metric(given, name), aggregation=aggregations.get("mean"), whole=True)
    if given in metrics:
        return metrics.get(given)
    if computed:
        raise ConfigError(f"unknown metric '{given}'", hint=nearest(str(given), metrics, listed="metrics"))
    return value_metric(str(given))


def _aggregation(given: str | Callable[..., Any] | None, default: Aggregation) -> Aggregation:
    if given is None:
        return default
    if isinstance(given, str):
        if given not in aggregations:
            hint = nearest(given, aggregations, listed="aggregations")
            raise ConfigError(f"unknown aggregation '{given}'", hint=hint)
        return aggregations.get(given)
    return plain_aggregation(given)
