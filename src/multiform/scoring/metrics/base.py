"""Metrics: a value for each document, and the aggregation of all values.

A task names a registered metric, one of the library `evaluate`, or brings its own function, which is called
as lm-eval calls it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multiform.arguments import accepted_arguments, mismatch, name_of
from multiform.errors import ConfigError, UsageError, excerpt, nearest, reason, running
from multiform.formats.base import OutputType
from multiform.registry import Registry
from multiform.scoring.aggregations import CORPUS, Aggregation, aggregations, mean, plain_aggregation
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.reductions import Reduction, ReductionFn, build_reduction

MetricFn = Callable[..., Any]

metrics: Registry[Metric] = Registry("metric", group="multiform.metrics", raises=ConfigError)

#: Metrics that say whether a document is right: forms with different ones of them can be compared.
RIGHT_OR_WRONG = ("acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info", "acc_norm_full", "exact_match")
#: Keys of a `metric_list` entry that are not arguments of the metric.
_STATED = ("aggregation", "reduction", "higher_is_better")
_OWN_KEYS = (*_STATED, "metric", "kwargs", "hf_evaluate")
_ALL_TYPES = frozenset(("multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """A metric, with the arguments that a task sets."""

    name: str
    fn: MetricFn
    output_types: frozenset[str] = _ALL_TYPES
    aggregation: Aggregation
    #: Reduces the values of repeats to one; None takes the first.
    reduction: Reduction | None = None
    higher_is_better: bool = True
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the function takes lists of references and predictions instead of an outcome.
    whole: bool = False
    #: The package that it needs, as it is imported; None for none beside our own requirements.
    package: str | None = None

    def aggregate(self) -> Callable[[Sequence[Any]], float]:
        """The aggregation as a function of all values; its attribute `aggregation` also computes the uncertainty."""

        def value(items: Sequence[Any]) -> float:
            return self.aggregation(items, 0).value

        value.aggregation = self.aggregation  # type: ignore[attr-defined]
        return value

    def check_package(self) -> None:
        """Refuse a metric whose package is not installed, so that this is not noticed after the model has run."""
        of_all_texts = any(self.aggregation is aggregations.get(name) for name in CORPUS)
        package = "sacrebleu" if of_all_texts else self.package
        if package is not None and find_spec(package) is None:
            message = f"metric '{self.name}' needs {package.replace('_', '-')}"
            raise UsageError(message, hint="pip install 'multiform[metrics]'")

    def __call__(self, outcome: Outcome) -> Any:
        with running(f"metric '{self.name}'", hint="call it with this document's outcome to debug it"):
            return self.fn(outcome, **self.kwargs)


def register_metric(
    metric: str,
    *,
    output_type: OutputType | Sequence[OutputType],
    aggregation: str = "mean",
    reduction: str | ReductionFn | None = None,
    higher_is_better: bool = True,
    package: str | None = None,
) -> Callable[[MetricFn], MetricFn]:
    """Register a function of an outcome as a metric; `package` is one that it needs, of the extra 'metrics'.

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
            package=package,
        )
        metrics.register(metric)(entry)
        return fn

    return decorate


def build_metric(spec: Mapping[str, Any], *, computed: bool = True, notes: list[ConfigError] | None = None) -> Metric:
    """Build the metric of a `metric_list` entry: registered, a function, or from the library `evaluate`.

    With `computed` false, the values come from the task's own code, and only name and aggregation are used.
    Arguments that the metric does not take are errors; with a list of `notes`, they are dropped and noted there.
    """
    base = _base(spec, computed)
    kwargs = {**(spec.get("kwargs") or {}), **{key: value for key, value in spec.items() if key not in _OWN_KEYS}}
    if computed and not base.whole and kwargs:
        accepted = accepted_arguments(base.fn, kwargs)
        for key in (key for key in kwargs if key not in accepted):
            hint = nearest(key, list(inspect.signature(base.fn).parameters)[1:], listed="its arguments are")
            unknown = ConfigError(f"metric '{base.name}' has no argument '{key}'", hint=hint)
            if notes is None:
                raise unknown
            notes.append(unknown)
        kwargs = accepted
        for pattern in kwargs.get("regexes_to_ignore") or ():
            try:
                re.compile(pattern)
            except (re.error, TypeError) as error:
                message = f"metric '{base.name}': bad regular expression {pattern!r}: {error}"
                raise ConfigError(message, hint="test the pattern") from error
    # A metric of ours takes an outcome, and needs no argument.
    if computed and (base.whole or kwargs or not str(getattr(base.fn, "__module__", "")).startswith("multiform.")):
        _check_call(base, spec["metric"], kwargs)
    stated: dict[str, Any] = {key: spec[key] for key in _STATED if spec.get(key) is not None}
    if "aggregation" in stated:
        name = stated["aggregation"]
        stated["aggregation"] = aggregations.get(name) if isinstance(name, str) else plain_aggregation(name)
    if "reduction" in stated:
        stated["reduction"] = build_reduction(stated["reduction"])
    return replace(base, kwargs=kwargs, **stated)


def _check_call(metric: Metric, spec_metric: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise a ConfigError for a function that cannot be called as metrics are called."""
    if metric.whole and not callable(spec_metric):
        return  # a metric of the library evaluate, whose arguments are not known
    if metric.whole:
        ways = [mismatch(spec_metric, references=[], predictions=[], **kwargs), mismatch(spec_metric, [], **kwargs)]
        called, written = "with references=[...] and predictions=[...], or with a pair", "(references, predictions)"
    else:
        ways = [mismatch(metric.fn, None, **kwargs)]
        called, written = "with the outcome of a document", "(outcome)"
    if None not in ways:
        message = f"metric '{metric.name}' cannot be called {called}: {ways[0]}"
        name = name_of(spec_metric if metric.whole else metric.fn).rpartition(".")[2]
        raise ConfigError(message, hint=f"write it as def {name}{written}, and give its other arguments in metric_list")


def value_metric(name: str) -> Metric:
    """A metric whose values come from a task's own code; its aggregation is the mean."""

    def not_computed(outcome: Outcome, **kwargs: Any) -> Any:
        raise ConfigError(f"metric '{name}' is not registered", hint="return it from process_results")

    return Metric(name=name, fn=not_computed, aggregation=mean)


def _base(spec: Mapping[str, Any], computed: bool) -> Metric:
    metric = spec["metric"]
    if callable(metric):
        name = getattr(metric, "__name__", type(metric).__name__)
        return Metric(name=name, fn=callable_metric(metric, name), aggregation=mean, whole=True)
    if not computed:
        return metrics.get(metric) if metric in metrics else value_metric(str(metric))
    if spec.get("hf_evaluate") is not True:
        return metrics.get(metric)
    return Metric(name=metric, fn=HubMetric(str(metric)), aggregation=mean, whole=True)


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w-]*(/[A-Za-z0-9][\w.-]*)?")


def callable_metric(function: Callable[..., Any], name: str) -> MetricFn:
    """A metric that calls ``function(references=[...], predictions=[...])``, or the function with a pair.

    With several references, the value is 1 if any of them gives a value other than 0.
    """

    def score(outcome: Outcome, **kwargs: Any) -> Any:
        with running(f"metric '{name}'", hint="call it with this document's reference and prediction to debug it"):
            if not isinstance(outcome, TextOutcome):
                return function(outcome, **kwargs)
            scores = [_call_with_pair(function, ref, outcome.prediction, kwargs) for ref in outcome.references]
        values = [value.get(name) if isinstance(value, Mapping) else value for value in scores]
        return scores[0] if len(scores) == 1 else float(any(values))

    return score


class HubMetric:
    """A metric of the library `evaluate`, whose code comes from the hub: it runs only if the user agrees.

    `evaluate` would rather run the code of a folder of that name in the working folder, which is refused.
    """

    def __init__(self, name: str) -> None:
        if not _HUB_NAME.fullmatch(name):
            raise ConfigError(f"metric {excerpt(name)} is not a name on the hub", hint="write e.g. metric: wer")
        if Path(name).exists():
            message = f"there is a file or folder '{name}' here, whose code the library evaluate would run instead"
            raise ConfigError(message, hint="rename it, or run the command in another folder")
        self.name = name
        self._score: MetricFn | None = None

    def load(self) -> None:
        """Fetch and import the code, to which the user has agreed."""
        try:
            import evaluate

            self._score = callable_metric(evaluate.load(self.name).compute, self.name)
        except (Exception, SystemExit) as error:  # the library, the hub and what a metric imports fail in any way
            message = f"metric '{self.name}' is not one of the library evaluate that can be loaded: {reason(error)}"
            raise ConfigError(message, hint="pip install evaluate, and check the name and the network") from error

    def __call__(self, outcome: Outcome, **kwargs: Any) -> Any:
        if self._score is None:
            raise self.refusal()
        return self._score(outcome, **kwargs)

    def refusal(self) -> UsageError:
        """The error if the user has not agreed to run the code."""
        message = f"metric '{self.name}' runs code that the library evaluate fetches from the hub"
        return UsageError(message, hint="add --confirm_run_unsafe_code if that is what you want")


def pair(outcome: Outcome, **kwargs: Any) -> Any:
    """The pair of reference and prediction, for a task's own aggregation function."""
    assert isinstance(outcome, TextOutcome)
    references = outcome.references
    return [references[0] if len(references) == 1 else list(references), outcome.prediction]


def _call_with_pair(function: Callable[..., Any], reference: Any, prediction: Any, kwargs: Mapping[str, Any]) -> Any:
    try:
        return function(references=[reference], predictions=[prediction], **kwargs)
    except TypeError as first:
        try:
            return function([reference, prediction], **kwargs)
        except TypeError:
            raise first from None
