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
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from multiform.errors import ConfigError, DataError, running, shorten
from multiform.fields import Doc
from multiform.registry import Registry
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.reductions import Reduction

scorers: Registry[type[Scorer]] = Registry("scorer")
register_scorer = scorers.register


@dataclass(kw_only=True, eq=False)
class Scorer:
    """Scores answers with a list of metrics, after one pipeline of filters."""

    #: Metrics of this scorer where neither the task nor the format names any: names, or as `metric_list` has them.
    default_metric_cfg: ClassVar[Sequence[str | Mapping[str, Any]]] = ()
    #: Filters of this scorer where the task names none, as `filter_list` writes them.
    default_filter_cfg: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: Whether it scores all documents together, after the last answer; so does a class with its own `score_instances`.
    deferred: ClassVar[bool] = False

    pipeline: Pipeline
    metrics: Sequence[Metric]
    #: What the filters left of each document's answers, by the document's index.
    filtered_docs: dict[int, Sequence[Any]] = field(init=False, default_factory=dict, repr=False)
    #: The reduced values of each document, by the document's index.
    scored_docs: dict[int, Mapping[str, Any]] = field(init=False, default_factory=dict, repr=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "score_instances" in cls.__dict__ and "deferred" not in cls.__dict__:
            cls.deferred = True

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
        if not outcomes:
            what = f"the filters of '{self.name}' left no answer to score"
            raise DataError(what, hint="have them return one output for each that they get")
        return self.reduced([self._score_one(outcome) for outcome in outcomes])

    def score_documents(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        """What `score_instances` returns, checked: a mapping of values for each document."""
        told, hint = f"{type(self).__name__}.score_instances", "return a list with a dict of values for each document"
        with running(f"scorer {told}", hint="call it with these outcomes to debug it"):
            every = self.score_instances(outcomes, docs)
        if not isinstance(every, list | tuple) or not all(isinstance(values, Mapping) for values in every):
            raise DataError(f"scorer {told} returned {shorten(every)}", hint=hint)
        if len(every) != len(docs):
            raise DataError(f"scorer {told} returned {len(every)} results for {len(docs)} documents", hint=hint)
        return [dict(values) for values in every]

    def reduced(self, scored: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The values of repeats as one value for each metric."""
        for values in scored:
            if set(values) != set(scored[0]):
                what = f"the repeats of a document have different metrics: {list(scored[0])} and {list(values)}"
                raise DataError(what, hint="give every repeat the same ones")
        made: dict[str, Any] = {}
        for key in scored[0]:
            made |= _reduced(key, [values[key] for values in scored], self._reduction(key))
        return made

    def _reduction(self, key: str) -> Reduction | None:
        """The reduction of a metric, where the filters leave as many values as it needs."""
        metric = self.metric(key)
        reduction = metric.reduction if metric else None
        most = self.pipeline.most
        return None if reduction is None or (most is not None and most < reduction.needs) else reduction

    def _score_one(self, outcome: Outcome) -> Mapping[str, Any]:
        told = f"{type(self).__name__}.score"
        with running(f"scorer {told}", hint="call it with this outcome to debug it"):
            values = self.score(outcome)
        if not isinstance(values, Mapping):
            raise DataError(f"scorer {told} returned {shorten(values)}", hint="return a dict of values")
        return values

    def metric(self, key: str) -> Metric | None:
        """The metric that a key of the values comes from: its own, the one in brackets, or the only one there is."""
        return self.named(key) or (self.metrics[0] if len(self.metrics) == 1 else None)

    def named(self, key: str) -> Metric | None:
        """The metric of a key, or of the name in brackets behind it, such as ``pass@2(exact_match)``."""
        names = (key, key.rpartition("(")[2].removesuffix(")"))
        return next((metric for metric in self.metrics if metric.name in names), None)


def _reduced(key: str, repeats: Sequence[Any], reduction: Reduction | None) -> dict[str, Any]:
    """One value of the repeats, or several: of a reduction such as ``pass@k``, or of a metric that gives several."""
    if all(isinstance(value, Mapping) for value in repeats):
        values: dict[str, Any] = {}
        for name in repeats[0]:
            values |= _reduced(str(name), [value.get(name) for value in repeats], reduction)
        return values
    value = repeats[0] if reduction is None else reduction(repeats)
    if not isinstance(value, Mapping):
        return {key: value}
    return {f"{name}({key})": number for name, number in value.items()}


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
