"""FormAggregator: from the values of a form's samples to its scores."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from multiform.calls import name_of
from multiform.errors import ConfigError, DataError, MultiformError, UsageError, running, shorten
from multiform.forms.sample import Sample, ScoredSample
from multiform.forms.spec import FormSpec
from multiform.scoring.aggregations import Aggregation, aggregate_values, mean, plain_aggregation
from multiform.scoring.metrics import Metric, value_metric
from multiform.scoring.scorers import Scorer
from multiform.scoring.scorers.base import is_note
from multiform.statistics.estimates import Estimate

logger = logging.getLogger("multiform")

Values = Mapping[str, Any]


class _ValuesOf(Sequence[Values]):
    """The values of samples, made one by one: those of many samples are not kept as mappings."""

    def __init__(self, samples: Sequence[ScoredSample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[index].values

    def __iter__(self) -> Iterator[Values]:
        return (sample.values for sample in self._samples)


class FormAggregator:
    """Aggregates the values of documents: by the task's own `aggregation`, by the metric of their name, or the mean."""

    def __init__(self, form: FormSpec) -> None:
        self.form = form
        self.scorers = form.scoring.scorers
        #: The scorers of documents for which `process_results` returns None, by name; there are none before.
        self.fallback: dict[str, Scorer] = {}
        self._warned: set[str] = set()

    @property
    def metrics(self) -> list[Metric]:
        """All metrics that the form has scores of."""
        scorers = [*self.scorers, *self.fallback.values()]
        return list({metric.name: metric for scorer in scorers for metric in scorer.metrics}.values())

    @property
    def directions(self) -> dict[str, bool]:
        """Whether higher is better, by the name of each metric and of each value that a metric has named itself."""
        named = {name: metric for scorer in self.scorers for name, metric in scorer.value_metrics.items()}
        metrics = {**{metric.name: metric for metric in self.metrics}, **named}
        return {name: metric.higher_is_better for name, metric in metrics.items()}

    def aggregation(self, scorer: Scorer, key: str) -> Aggregation:
        """What aggregates the values of a key: the task's own method, the metric of that name, or the mean."""
        if key in self._own_aggregations:
            return self._own_aggregations[key]
        if not self.form.scores_itself:
            return (scorer.metric(key) or value_metric(key)).aggregation
        metric = scorer.metric_named(key)
        if metric is None and scorer.name in self.fallback:
            computing = self.fallback[scorer.name]
            only = computing.metric(key)  # a function may give several numbers, each under a name of its own
            metric = computing.metric_named(key) or (only if only is not None and only.whole else None)
        return (metric or value_metric(key)).aggregation

    @cached_property
    def _own_aggregations(self) -> dict[str, Aggregation]:
        """The functions of an `aggregation` method that a subclass brings along."""
        if "aggregation" not in self.form.hooks:
            return {}
        place = self.form.config.where("class")
        with running("aggregation()", where=place, hint="call it to debug it"):
            functions: Any = self.form.hooks["aggregation"]()
        if not isinstance(functions, Mapping) or not all(callable(function) for function in functions.values()):
            message = f"aggregation() returned {shorten(functions)}, not a mapping of functions"
            raise DataError(message, where=place or self.form.name, hint='return e.g. {"acc": statistics.mean}')
        return {str(key): plain_aggregation(function) for key, function in functions.items()}

    def estimates(self, samples: Iterable[ScoredSample], bootstrap_iters: int) -> dict[str, Estimate]:
        """All scores with their uncertainty, keyed ``metric,scorer``."""
        by_scorer: dict[str, list[ScoredSample]] = {scorer.name: [] for scorer in self.scorers}
        for sample in samples:
            by_scorer[sample.scorer].append(sample)
        return self.value_estimates({name: _ValuesOf(each) for name, each in by_scorer.items()}, bootstrap_iters)

    def value_estimates(self, values: Mapping[str, Sequence[Values]], bootstrap_iters: int) -> dict[str, Estimate]:
        """All scores, from the values of the documents by the name of the scorer."""
        estimates: dict[str, Estimate] = {}
        for scorer in self.scorers:
            docs = values[scorer.name]
            keys = dict.fromkeys(key for doc in docs for key in doc)
            for key in keys:
                items = [doc[key] for doc in docs if key in doc]
                if self._is_note(scorer, key, items):
                    continue
                if len(items) < len(docs):
                    self._warn_partial(key, len(items), len(docs))
                with locating_scores(self.form):
                    aggregation = self.aggregation(scorer, key)
                    estimates[f"{key},{scorer.name}"] = aggregate_values(aggregation, items, bootstrap_iters, key)
            if docs and self.form.scores_itself:
                self._warn_missing(scorer, set(keys))
        return estimates

    def kept_estimates(self, bootstrap_iters: int) -> tuple[dict[str, Estimate], int]:
        """The estimates of the values that the scorers keep, and the number of documents."""
        ids = {doc_id for scorer in self.scorers for doc_id in scorer.scored_docs}
        if not ids:
            hint = "call process_instances() first"
            raise UsageError("no document is scored yet", where=self.form.name, hint=hint)
        values = {scorer.name: list(scorer.scored_docs.values()) for scorer in self.scorers}
        return self.value_estimates(values, bootstrap_iters), len(ids)

    def first_estimate(self, samples: Sequence[ScoredSample]) -> tuple[str, Estimate] | None:
        """The metric and the score that tables show first, of some of the documents; None if there is none.

        Nothing is bootstrapped, so that scores which need that have no interval.
        """
        for scorer in self.scorers:
            docs = [sample.values for sample in samples if sample.scorer == scorer.name]
            for key in dict.fromkeys(key for doc in docs for key in doc):
                items = [doc[key] for doc in docs if key in doc]
                if key == "bypass" or self._is_note(scorer, key, items):
                    continue
                try:
                    return key, aggregate_values(self.aggregation(scorer, key), items, 0, key)
                except MultiformError:  # such as one that takes all documents; at the end of a run it is told
                    return None
        return None

    def count_wrong(self, failed: Sequence[tuple[Sample, str]], scored: Sequence[ScoredSample]) -> list[ScoredSample]:
        """Documents whose requests failed, and why, with the worst value of each metric that has one.

        These are the means of values from 0 to 1 over the other documents, which are `scored`.
        """
        worst = {key: float(not better) for key, better in self._unit_means(scored)}
        return [
            ScoredSample(
                sample=sample,
                outputs=(),
                scorer=scorer.name,
                filtered=(),
                values={key: value for (name, key), value in worst.items() if name == scorer.name},
                failure=reason,
            )
            for scorer in self.scorers
            for sample, reason in failed
        ]

    def bounds(self, scored: Sequence[ScoredSample], failed: int) -> dict[str, tuple[float, float]]:
        """The lowest and highest score that each mean of values from 0 to 1 can have, whatever failed documents get."""
        bounds = {}
        for (name, key), _ in self._unit_means(scored):
            values = [float(doc.values[key]) for doc in scored if doc.scorer == name and key in doc.values]
            total, n = math.fsum(values), len(values) + failed
            bounds[f"{key},{name}"] = (total / n, (total + failed) / n)
        return bounds

    def _unit_means(self, scored: Sequence[ScoredSample]) -> Iterator[tuple[tuple[str, str], bool]]:
        """The scorer and key of each score that is a mean of values from 0 to 1, and whether higher is better."""
        for scorer in self.scorers:
            docs = [doc.values for doc in scored if doc.scorer == scorer.name]
            for key in dict.fromkeys(key for doc in docs for key in doc):
                values = [doc[key] for doc in docs if key in doc]
                rated = all(isinstance(value, int | float) and 0 <= value <= 1 for value in values)
                metric = scorer.metric_named(key)
                if rated and self.aggregation(scorer, key) is mean:
                    yield (scorer.name, key), metric is None or metric.higher_is_better

    def _is_note(self, scorer: Scorer, key: str, items: Sequence[Any]) -> bool:
        """Whether values are text beside the scores, such as what a judge wrote: for the samples alone."""
        unnamed = key not in self._own_aggregations and scorer.metric_named(key) is None
        return unnamed and all(is_note(item) for item in items)

    def _warn_partial(self, key: str, number: int, total: int) -> None:
        """Say once that a metric leaves documents out."""
        if key not in self._warned:
            self._warned.add(key)
            message = "%s: '%s' is over %d of %d documents, as the others have no value of that name"
            logger.warning(message, self.form.name, key, number, total)

    def _warn_missing(self, scorer: Scorer, keys: set[str]) -> None:
        """Say once that a metric of the task's list has no score."""
        specs = [spec["metric"] for spec in self.form.config.metric_list]
        listed = {name_of(metric) if callable(metric) else metric for metric in specs}
        known = {metric.name for key in keys if (metric := scorer.metric_named(key)) is not None}
        for name in sorted(listed - known - keys - self._warned):
            self._warned.add(name)
            message = "%s: metric '%s' has no score, as process_results gave no document a value of that name"
            logger.warning(message, self.form.config.where("metric_list"), name)


def scores_with_errors(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """The scores, keyed ``metric,scorer``, with their standard errors, as lm-eval names them."""
    scores: dict[str, float] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        scores[key] = estimate.value
        if estimate.stderr is not None:
            scores[f"{metric}_stderr,{scorer}"] = estimate.stderr
    return scores


@contextmanager
def locating_scores(form: FormSpec) -> Iterator[None]:
    """Say where filters, metrics and scorers were written, which they do not know themselves."""
    try:
        yield
    except (DataError, ConfigError) as error:
        raise error.or_at(form.where_stated("filter_list", "metric_list", "scorer")) from error
