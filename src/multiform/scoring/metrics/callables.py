"""Metrics that a task brings along as functions, called as lm-eval and the library `evaluate` call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import ConfigError, reason, running
from multiform.scoring.metrics.base import MetricFn
from multiform.scoring.outcome import Outcome, TextOutcome


def callable_metric(function: Callable[..., Any], name: str) -> MetricFn:
    """A metric that calls ``function(references=[...], predictions=[...])``, or the function with a pair.

    With several references, the value is 1 if any of them gives a value other than 0.
    """

    def score(outcome: Outcome, **kwargs: Any) -> Any:
        if not isinstance(outcome, TextOutcome):
            return _guarded(name, lambda: function(outcome, **kwargs))
        scores = [_called(function, name, ref, outcome.prediction, kwargs) for ref in outcome.references]
        if len(scores) == 1:
            return scores[0]
        values = [value.get(name) if isinstance(value, Mapping) else value for value in scores]
        return 1.0 if any(values) else 0.0

    return score


def evaluate_metric(name: str) -> MetricFn:
    """A metric of the library `evaluate`, which loads most of them from the hub."""
    try:
        import evaluate

        function = evaluate.load(name).compute
    except Exception as error:  # the library, the hub and what a metric imports fail in any way
        what = f"metric '{name}' is not one of the library evaluate that can be loaded: {reason(error)}"
        raise ConfigError(what, hint="pip install evaluate, and check the name and the network") from error
    return callable_metric(function, name)


def pair(outcome: Outcome, **kwargs: Any) -> Any:
    """The pair of reference and prediction, for a task's own aggregation function."""
    assert isinstance(outcome, TextOutcome)
    references = outcome.references
    return [references[0] if len(references) == 1 else list(references), outcome.prediction]


def _called(function: Callable[..., Any], name: str, reference: Any, prediction: Any, kwargs: Mapping[str, Any]) -> Any:
    def attempt() -> Any:
        try:
            return function(references=[reference], predictions=[prediction], **kwargs)
        except TypeError as first:
            try:
                return function([reference, prediction], **kwargs)
            except TypeError:
                raise first from None

    return _guarded(name, attempt)


def _guarded(name: str, call: Callable[[], Any]) -> Any:
    with running(f"metric '{name}'", hint="call it with this document's reference and prediction to debug it"):
        return call()
