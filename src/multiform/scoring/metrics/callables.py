"""Metrics that a task brings along as functions, called as lm-eval and the library `evaluate` call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, UsageError, reason, running, shorten
from multiform.scoring.metrics.base import MetricFn
from multiform.scoring.outcome import Outcome, TextOutcome

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w-]*(/[A-Za-z0-9][\w.-]*)?")


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


class HubMetric:
    """A metric of the library `evaluate`, whose code comes from the hub: it runs only where the user agrees.

    `evaluate` would rather run the code of a folder of that name in the working folder, which is refused.
    """

    def __init__(self, name: str) -> None:
        if not _HUB_NAME.fullmatch(name):
            raise ConfigError(f"metric {shorten(name)} is no name on the hub", hint="write e.g. metric: wer")
        if Path(name).exists():
            message = (
                f"there is a file or folder '{name}' here, and the library evaluate would run its code as the metric"
            )
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
            raise self.refused()
        return self._score(outcome, **kwargs)

    def refused(self) -> UsageError:
        """The error where the user has not agreed to run the code."""
        message = f"metric '{self.name}' runs code that the library evaluate fetches from the hub"
        return UsageError(message, hint="add --confirm_run_unsafe_code if that is what you want")


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
