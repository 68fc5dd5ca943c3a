"""Scorers: filter, read and score the answers of a form.

There are three ways to make one, each a subclass with `register_scorer`: name default metrics and
filters, override `score` for one answer, or override `score_instances` for all of them at once. The `kwargs`
that a task gives a scorer are its fields::

    @register_scorer("close_enough")
    @dataclass(kw_only=True)
    class CloseEnough(Scorer):
        within: float = 0.1

        def score(self, outcome):
            return {"close": float(abs(float(outcome.prediction) - float(outcome.references[0])) <= self.within)}
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from multiform.errors import ConfigError, shorten
from multiform.fields import Doc
from multiform.registry import Registry
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.reductions import take_first

scorers: Registry[type[Scorer]] = Registry("scorer")
register_scorer = scorers.register


@dataclass(kw_only=True, eq=False)
class Scorer:
    """Scores answers with a list of metrics, after one pipeline of filters."""

    #: Metrics of this scorer where neither the task nor the format names any: names, or as `metric_list` has them.
    default_metric_cfg: ClassVar[Sequence[str | Mapping[str, Any]]] = ()
    #: Filters of this scorer where the task names none, as `filter_list` writes them.
    default_filter_cfg: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: Whether it scores all documents together, after the last answer.
    deferred: ClassVar[bool] = False

    pipeline: Pipeline
    metrics: Sequence[Metric]

    @property
    def name(self) -> str:
        """The part of a result's key after the comma."""
        return self.pipeline.name

    def score(self, outcome: Outcome) -> dict[str, Any]:
        """The value of each metric for one answer."""
        return {metric.name: metric(outcome) for metric in self.metrics}

    def prediction(self, outcome: Outcome) -> Any:
        """The answer of a generation as this scorer understands it; None where there is none."""
        return outcome.prediction if isinstance(outcome, TextOutcome) else None

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        """The values of each document, from the outcomes of its repeats."""
        return [self.score_repeats(repeats) for repeats in outcomes]

    def score_repeats(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """The values of one document, its repeats reduced to one value for each metric."""
        return self.reduced([self.score(outcome) for outcome in outcomes])

    def reduced(self, scored: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The values of repeats as one value for each metric."""
        values: dict[str, Any] = {}
        for key in scored[0]:
            values |= self._reduced(key, [one[key] for one in scored])
        return values

    def _reduced(self, key: str, made: Sequence[Any]) -> dict[str, Any]:
        metric = self.metric(key)
        value = made[0] if len(made) == 1 else (metric.reduction if metric else take_first)(made)
        if not isinstance(value, Mapping):
            return {key: value}
        # Several numbers from one metric: repeats reduced to pass@1, pass@3, or a function that returns a dict.
        return {f"{name}({key})" if len(made) > 1 else str(name): number for name, number in value.items()}

    def metric(self, key: str) -> Metric | None:
        """The metric that a key of the values comes from: its own, or the one in brackets."""
        names = (key, key.rpartition("(")[2].removesuffix(")"))
        found = [metric for metric in self.metrics if metric.name in names]
        return found[0] if found else self.metrics[0] if len(self.metrics) == 1 else None


@dataclass(kw_only=True, eq=False)
class ReadingScorer(Scorer, ABC):
    """A scorer that reads the answer out of free text; an answer that is not there is None."""

    default_metric_cfg: ClassVar[Sequence[str | Mapping[str, Any]]] = ("exact_match", "invalid", "truncated")

    @abstractmethod
    def read(self, outcome: TextOutcome) -> str | None:
        """The answer that the text gives, or None."""

    def canonical(self, text: str) -> str:
        """A form of an answer in which equal answers are equal strings."""
        return text

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """The outcome with the text replaced by the answer that was read."""
        answer = self.read(outcome) if outcome.prediction is not None else None
        return replace(
            outcome,
            prediction=None if answer is None else self.canonical(answer),
            references=tuple(self.canonical(reference) for reference in outcome.references),
        )

    def prediction(self, outcome: Outcome) -> Any:
        return super().prediction(self.reading(outcome) if isinstance(outcome, TextOutcome) else outcome)

    def score(self, outcome: Outcome) -> dict[str, Any]:
        if not isinstance(outcome, TextOutcome):
            what = f"{type(self).__name__} reads what a model writes"
            raise ConfigError(what, where="scorer", hint="remove it, or set output_type: generate_until")
        return super().score(self.reading(outcome))


def compiled(pattern: str, name: str) -> re.Pattern[str]:
    """A regular expression that a scorer was given, compiled."""
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        what = f"bad regular expression {shorten(pattern)}: {error}"
        raise ConfigError(what, where=f"scorer.kwargs.{name}", hint="test the pattern") from error
