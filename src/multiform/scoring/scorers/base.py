"""Scorers: filter the responses of a form, extract predictions and score them.

There are three ways to write one, each a subclass with `register_scorer`: set default metrics and
filters, override `score` for one response, or override `score_instances` for all of them at once. The `kwargs`
of `scorer:` in a task file are its fields::

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
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from multiform.errors import ConfigError, DataError, MultiformError, excerpt, running
from multiform.fields import Doc, Field
from multiform.registry import Registry
from multiform.scoring.aggregations import ItemKind
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric, register_metric
from multiform.scoring.metrics.choice import best
from multiform.scoring.outcome import ChoiceOutcome, Outcome, TextOutcome
from multiform.scoring.reductions import Reduction

scorers: Registry[type[Scorer]] = Registry("scorer", group="multiform.scorers", raises=ConfigError)
register_scorer = scorers.register


def register_own_metric(name: str, about: str, *, scorer: str, hint: str | None = None, **options: Any) -> None:
    """Register a metric that only a scorer computes: what it is about, and how to name that scorer."""

    def metric(outcome: Outcome) -> float:
        raise ConfigError(f"metric '{name}' comes from a scorer of its own", hint=hint or f"write scorer: {scorer}")

    metric.__doc__ = f"{about}; computed by the scorer `{scorer}`."
    register_metric(name, output_type="generate_until", **options)(metric)


def check_statements(statements: Any) -> None:
    """Refuse statements that are not a list of texts with ``{answer}`` in them."""
    right = isinstance(statements, list | tuple) and all(isinstance(s, str) and "{answer}" in s for s in statements)
    if not right:
        message = f"expected a list of texts with {{answer}} in them, got {excerpt(statements)}"
        raise ConfigError(message, where="scorer.kwargs.statements", hint='write statements: ["答えは{answer}です"]')


@dataclass(kw_only=True, eq=False)
class Scorer:
    """Scores responses with a list of metrics, after one filter pipeline."""

    #: Metrics if neither the task nor the format lists any: names, or entries of a `metric_list`.
    default_metric_cfg: ClassVar[Sequence[str | Mapping[str, Any]]] = ()
    #: Filters if the task lists none: steps of a `filter_list` entry.
    default_filter_cfg: ClassVar[Sequence[Mapping[str, Any]]] = ()
    #: Metrics that the scorer computes itself, instead of calling their functions.
    own_metrics: ClassVar[Sequence[str]] = ()
    #: Whether all documents are scored together, after the last response; true for a class with `score_instances`.
    deferred: ClassVar[bool] = False

    pipeline: Pipeline
    metrics: Sequence[Metric]
    #: The filtered responses of each document, by the document's index.
    filtered_docs: dict[int, Sequence[Any]] = field(init=False, default_factory=dict, repr=False)
    #: The reduced values of each document, by the document's index.
    scored_docs: dict[int, Mapping[str, Any]] = field(init=False, default_factory=dict, repr=False)
    #: The metric behind each name that a metric with several values gave them, such as ``pass@1``.
    value_metrics: dict[str, Metric] = field(init=False, default_factory=dict, repr=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "score_instances" in cls.__dict__ and "deferred" not in cls.__dict__:
            cls.deferred = True

    @property
    def needs_references(self) -> bool:
        """Whether documents must have references to compare completions with."""
        without = (*self.own_metrics, "truncated")
        return not self.own_metrics or any(metric.name not in without for metric in self.metrics)

    @property
    def name(self) -> str:
        """The part of a result's key after the comma."""
        return self.pipeline.name

    def score(self, outcome: Outcome) -> dict[str, Any]:
        """The value of each metric for one response, but for those that the scorer computes itself."""
        return {metric.name: metric(outcome) for metric in self.metrics if metric.name not in self.own_metrics}

    def prediction(self, outcome: Outcome) -> Any:
        """The prediction that this scorer extracts from a completion, or the index of the best choice; else None."""
        if isinstance(outcome, ChoiceOutcome):
            return best(outcome.loglikelihoods)
        return outcome.prediction if isinstance(outcome, TextOutcome) else None

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        """The values of each document, from the outcomes of its repeats."""
        return [self.score_repeats(repeats) for repeats in outcomes]

    def score_repeats(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """The values of one document, its repeats reduced to one value for each metric."""
        if not outcomes:
            message = f"the filters of '{self.name}' left no response to score"
            raise DataError(message, hint="have them return one output for each that they get")
        return self.reduce([self._score_one(outcome) for outcome in outcomes], outcomes)

    def score_documents(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        """Call `score_instances` and check that it returns a mapping of values for each document."""
        method, hint = f"{type(self).__name__}.score_instances", "return a list with a dict of values for each document"
        with running(f"scorer {method}", hint="call it with these outcomes to debug it"):
            scored = self.score_instances(outcomes, docs)
        if not isinstance(scored, list | tuple) or not all(isinstance(values, Mapping) for values in scored):
            raise DataError(f"scorer {method} returned {excerpt(scored)}", hint=hint)
        if len(scored) != len(docs):
            raise DataError(f"scorer {method} returned {len(scored)} results for {len(docs)} documents", hint=hint)
        return [dict(values) for values in scored]

    def reduce(self, scored: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome] | None = None) -> dict[str, Any]:
        """Reduce the values of repeats to one value for each metric; `outcomes` have the answers that maj@k counts."""
        for values in scored:
            if set(values) != set(scored[0]):
                message = f"the repeats of a document have different metrics: {list(scored[0])} and {list(values)}"
                raise DataError(message, hint="give every repeat the same ones")
        values_by_metric: dict[str, Any] = {}
        for key in scored[0]:
            metric, most = self.metric(key), self.pipeline.most
            reduction = metric.reduction if metric else None
            if reduction is not None and most is not None and most < reduction.needs:
                reduction = None  # the filters leave too few values
            answers = None
            if reduction is not None and reduction.counts_answers and outcomes is not None:
                if key != "acc" and any(isinstance(outcome, ChoiceOutcome) for outcome in outcomes):
                    message = f"votes are for the choice that acc picks, and {key} may pick another"
                    raise ConfigError(message, where="metric_list", hint="leave maj@k out, or use it with acc")
                answers = [self.prediction(outcome) for outcome in outcomes]
            reduced = _reduce_values(key, [values[key] for values in scored], reduction, answers)
            metric = self.metric_named(key)
            if metric is not None and key not in reduced:
                numbers = [name for name, value in reduced.items() if not isinstance(value, str | None)]
                self.value_metrics |= dict.fromkeys(numbers, metric)
            values_by_metric |= reduced
        return values_by_metric

    def _score_one(self, outcome: Outcome) -> Mapping[str, Any]:
        method = f"{type(self).__name__}.score"
        with running(f"scorer {method}", hint="call it with this outcome to debug it"):
            values = self.score(outcome)
        if not isinstance(values, Mapping):
            raise DataError(f"scorer {method} returned {excerpt(values)}", hint="return a dict of values")
        return values

    def metric(self, key: str) -> Metric | None:
        """The metric of a key of the values: by name, by the name in brackets, or the only metric there is."""
        return self.metric_named(key) or (self.metrics[0] if len(self.metrics) == 1 else None)

    def metric_named(self, key: str) -> Metric | None:
        """The metric of a key: of that name, of the name in brackets as in ``pass@2(exact_match)``, or the one that
        gave a value that name.
        """
        named = {metric.name: metric for metric in reversed(self.metrics)}
        return named.get(key) or named.get(key.rpartition("(")[2].removesuffix(")")) or self.value_metrics.get(key)


def _reduce_values(
    key: str, repeats: Sequence[Any], reduction: Reduction | None, answers: Sequence[Any] | None
) -> dict[str, Any]:
    """The reduced value of repeats; several for a reduction such as ``pass@k``, or a metric with several values."""
    if all(isinstance(value, Mapping) for value in repeats):
        values: dict[str, Any] = {}
        for name in repeats[0]:
            values |= _reduce_values(str(name), [value.get(name) for value in repeats], reduction, answers)
        return values
    value = repeats[0] if reduction is None else reduction(repeats, answers)
    if not isinstance(value, Mapping):
        return {key: value}
    return {f"{name}({key})": number for name, number in value.items()}


@dataclass(kw_only=True, eq=False)
class DocumentScorer(Scorer, ABC):
    """A scorer whose own metrics compare a completion with fields of its document, which its arguments name."""

    deferred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        names = {each.name for each in fields(self)} - {each.name for each in fields(Scorer)}
        try:
            self._fields = {name: Field.of(getattr(self, name)) for name in names}
        except MultiformError as error:
            raise error.at("scorer.kwargs") from error

    @abstractmethod
    def own_values(self, text: str, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """The values of the scorer's own metrics for the text of a completion, and the value of each field by name."""

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        return [
            self.reduce([self._values(outcome, doc) for outcome in repeats])
            for repeats, doc in zip(outcomes, docs, strict=True)
        ]

    def _values(self, outcome: Outcome, doc: Doc) -> dict[str, Any]:
        completion = as_completion(outcome, type(self).__name__)
        values = {name: field.value(doc) for name, field in self._fields.items()}
        own = self.own_values(completion.primed + str(completion.prediction or ""), **values)
        return {metric.name: own[metric.name] if metric.name in own else metric(outcome) for metric in self.metrics}


@dataclass(kw_only=True, eq=False)
class ReadingScorer(Scorer, ABC):
    """A scorer that extracts the prediction from a completion; None if the completion has none."""

    default_metric_cfg: ClassVar[Sequence[str | Mapping[str, Any]]] = ("exact_match", "invalid", "truncated")

    @abstractmethod
    def read_answer(self, outcome: TextOutcome) -> str | None:
        """The prediction in a completion, or None."""

    def canonical(self, text: str) -> str:
        """Normalise an answer, so that equal answers are equal strings."""
        return text

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """The outcome with the completion replaced by the prediction extracted from it."""
        answer = self.read_answer(outcome) if outcome.prediction is not None else None
        return replace(
            outcome,
            prediction=None if answer is None else self.canonical(answer),
            references=tuple(self.canonical(reference) for reference in outcome.references),
        )

    def prediction(self, outcome: Outcome) -> Any:
        return super().prediction(self.reading(outcome) if isinstance(outcome, TextOutcome) else outcome)

    def score(self, outcome: Outcome) -> dict[str, Any]:
        return super().score(self.reading(as_completion(outcome, type(self).__name__)))


def as_completion(outcome: Outcome, scorer: str) -> TextOutcome:
    """The outcome of a completion; a ConfigError for any other."""
    if isinstance(outcome, TextOutcome):
        return outcome
    message = f"{scorer} scores generated completions"
    raise ConfigError(message, where="scorer", hint="remove it, or set output_type: generate_until")


def compile_pattern(pattern: str, name: str) -> re.Pattern[str]:
    """Compile a regular expression; errors name the scorer's argument `name`."""
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        message = f"bad regular expression {excerpt(pattern)}: {error}"
        raise ConfigError(message, where=f"scorer.kwargs.{name}", hint="test the pattern") from error


def reduce_task_values(scorer: Scorer, values: Mapping[str, Any], kinds: Mapping[str, ItemKind]) -> dict[str, Any]:
    """The values that `process_results` returned, with the values of repeats reduced to one.

    `kinds` says what the aggregation of each takes. A task's own aggregation gets a list as it is, unless the metric
    has a reduction. A registered aggregation takes one number, or one pair, for each document, so that a list of these
    holds repeats.
    """
    reduced: dict[str, Any] = {}
    for key, value in ((str(key), value) for key, value in values.items()):
        metric = scorer.metric_named(key)
        reduces = metric is not None and metric.reduction is not None
        pairs = isinstance(value, list) and all(isinstance(each, list | tuple) and len(each) == 2 for each in value)
        is_repeated = isinstance(value, list) and {"number": True, "pair": pairs, "any": reduces}[kinds[key]]
        if not is_repeated and not reduces:
            reduced[key] = value
        elif is_repeated and not value:
            message = f"process_results gave metric '{key}' an empty list"
            raise DataError(message, hint="give a value, such as 0.0, or leave the metric out of this document")
        else:
            reduced |= scorer.reduce([{key: repeat} for repeat in (value if is_repeated else [value])])
    return reduced


def check_values(values: Mapping[str, Any], scorer: Scorer, kinds: Mapping[str, ItemKind]) -> None:
    """Raise a DataError for a value that the aggregation of its metric cannot use.

    Text under a name that is not a metric, such as a judge's response, is only written to the samples.
    """
    for key, value in values.items():
        if kinds[key] != "number" or (scorer.metric_named(key) is None and is_note(value)):
            continue
        with suppress(TypeError, ValueError):
            float(value)
            continue
        message = f"metric '{key}' has the value {excerpt(value)}, not a number"
        raise DataError(message, hint="give a number for each document, or an aggregation that takes such values")


def is_note(value: Any) -> bool:
    """Whether a value is not aggregated but only written to the samples."""
    return value is None or isinstance(value, str)
