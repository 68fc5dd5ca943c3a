"""Metrics: a value for each document, and how the values of many become one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, nearest, running
from multiform.formats import OutputType
from multiform.registry import Registry
from multiform.scoring.aggregations import Aggregation, aggregations, plain_aggregation
from multiform.scoring.outcome import Outcome
from multiform.scoring.reductions import Reduction, ReductionFn, build_reduction

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
    #: What makes one value of repeats; None where nothing is asked for, which takes the first.
    reduction: Reduction | None = None
    higher_is_better: bool = True
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it takes all repeats of a document at once, as a list.
    whole: bool = False

    def __call__(self, outcome: Outcome) -> Any:
        with running(f"metric '{self.name}'", hint="call it with this document's answer to debug it"):
            return self.fn(outcome, **self.kwargs)


def register_metric(
    metric: str,
    *,
    output_type: OutputType | Sequence[OutputType],
    aggregation: str = "mean",
    reduction: str | ReductionFn | None = None,
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
            reduction=None if reduction is None else build_reduction(reduction),
            higher_is_better=higher_is_better,
        )
        metrics.register(metric)(entry)
        return fn

    return decorate


def build_metric(spec: Mapping[str, Any], *, computed: bool = True, notes: list[ConfigError] | None = None) -> Metric:
    """The metric of a `metric_list` entry: registered, a function, or one of the library `evaluate`.

    With `computed` false a task's own code gives the values, and only name and aggregation matter. Arguments that
    the metric does not take are errors; with a list of `notes`, they are left out and noted there.
    """
    base = _base(spec, computed)
    kwargs = {**(spec.get("kwargs") or {}), **{key: value for key, value in spec.items() if key not in _OWN_KEYS}}
    if computed and not base.whole:
        unknown = _unknown_arguments(base, kwargs)
        if unknown and notes is None:
            raise next(iter(unknown.values()))
        notes = [] if notes is None else notes
        notes += unknown.values()
        kwargs = {key: value for key, value in kwargs.items() if key not in unknown}
    if computed:
        _check_call(base, spec["metric"], kwargs)
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


def _check_call(metric: Metric, given: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse a function that cannot be called as metrics are called."""
    if metric.whole and not callable(given):
        return  # one of the library evaluate, which takes what it likes
    if metric.whole:
        ways = [mismatch(given, references=[], predictions=[], **kwargs), mismatch(given, [], **kwargs)]
        called, written = "with references=[...] and predictions=[...], or with a pair", "(references, predictions)"
    else:
        ways = [mismatch(metric.fn, None, **kwargs)]
        called, written = "with the outcome of a document", "(outcome)"
    if None not in ways:
        what = f"metric '{metric.name}' cannot be called {called}: {ways[0]}"
        name = name_of(given if metric.whole else metric.fn).rpartition(".")[2]
        raise ConfigError(what, hint=f"write it as def {name}{written}, and give its other arguments in metric_list")


def _unknown_arguments(metric: Metric, kwargs: Mapping[str, Any]) -> dict[str, ConfigError]:
    """An error for each argument that the metric's function does not take."""
    taken = inspect.signature(metric.fn).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
        return {}
    known = list(taken)[1:]
    for pattern in kwargs.get("regexes_to_ignore") or ():
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            what = f"metric '{metric.name}': bad regular expression {pattern!r}: {error}"
            raise ConfigError(what, hint="test the pattern") from error
    return {
        key: ConfigError(
            f"metric '{metric.name}' has no argument '{key}'", hint=nearest(key, known, listed="its arguments are")
        )
        for key in kwargs
        if key not in known
    }


def value_metric(name: str) -> Metric:
    """A metric whose values a task's own code gives; their mean is taken."""

    def given(outcome: Outcome, **kwargs: Any) -> Any:
        raise ConfigError(f"metric '{name}' is not registered", hint="return it from process_results")

    return Metric(name=name, fn=given, aggregation=aggregations.get("mean"))


def _base(spec: Mapping[str, Any], computed: bool) -> Metric:
    from multiform.scoring.metrics.callables import callable_metric, evaluate_metric

    given = spec["metric"]
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return Metric(name=name, fn=callable_metric(given, name), aggregation=aggregations.get("mean"), whole=True)
    if not computed:
        return metrics.get(given) if given in metrics else value_metric(str(given))
    if given in metrics and spec.get("hf_evaluate") is not True:
        return metrics.get(given)
    if spec.get("hf_evaluate") is not True:
        raise ConfigError(f"unknown metric '{given}'", hint=nearest(str(given), metrics, listed="metrics"))
    return Metric(name=given, fn=evaluate_metric(given), aggregation=aggregations.get("mean"), whole=True)


def _aggregation(given: str | Callable[..., Any] | None, default: Aggregation) -> Aggregation:
    if given is None:
        return default
    if isinstance(given, str):
        if given not in aggregations:
            hint = nearest(given, aggregations, listed="aggregations")
            raise ConfigError(f"unknown aggregation '{given}'", hint=hint)
        return aggregations.get(given)
    return plain_aggregation(given)
