"""FormScorer: from the responses to a form's samples to their scores, and from those to estimates."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, DataError, MultiformError, locating, running, shorten
from multiform.forms.kinds import KINDS, Kind
from multiform.forms.sample import Sample, ScoredSample, Step
from multiform.forms.spec import FormSpec
from multiform.requests import Completion, LLOutput, Output
from multiform.scoring.aggregations import Aggregation, aggregated, mean, plain_aggregation
from multiform.scoring.build import build_scoring, check_reductions
from multiform.scoring.metrics import Metric, value_metric
from multiform.scoring.metrics.choice import best
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import ReadingScorer, Scorer
from multiform.scoring.values import check_values, given_values, is_note
from multiform.statistics.estimates import Estimate

logger = logging.getLogger("multiform")

Values = Mapping[str, Any]


class FormScorer:
    """Scores the samples of a form and aggregates the scores.

    A task's own `process_results` comes first; where it returns None, the metrics of the scorers are computed.
    """

    def __init__(self, form: FormSpec) -> None:
        self.form = form
        self.hooks = form.hooks
        self.scorers = form.scoring.scorers
        #: The scorers of documents for which `process_results` returns None, by name; built when there is one.
        self._fallback: dict[str, Scorer] | None = None
        self._warned: set[str] = set()
        self._check_process_results()

    def check(self) -> list[ConfigError]:
        """Refuse reductions that need more responses than there will be; return warnings about others."""
        return [] if self.form.scores_itself else check_reductions(self.form.config, self.scorers)

    def _check_process_results(self) -> None:
        config = self.form.config
        problem = None if config.process_results is None else mismatch(config.process_results, {}, [])
        if problem is not None:
            message = f"{name_of(config.process_results)} cannot be called with a document and its results: {problem}"
            hint = "write it as process_results(doc, results)"
            raise ConfigError(message, where=config.where("process_results"), hint=hint)

    @property
    def kind(self) -> Kind:
        return KINDS[self.form.config.output_type]

    @property
    def metrics(self) -> list[Metric]:
        """All metrics that the form has scores of."""
        scorers = [*self.scorers, *(self._fallback or {}).values()]
        return list({metric.name: metric for scorer in scorers for metric in scorer.metrics}.values())

    @property
    def directions(self) -> dict[str, bool]:
        """Whether higher is better, by the name of each metric and of each value that a metric has named itself."""
        named = {name: metric for scorer in self.scorers for name, metric in scorer.value_metrics.items()}
        metrics = {**{metric.name: metric for metric in self.metrics}, **named}
        return {name: metric.higher_is_better for name, metric in metrics.items()}

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all samples."""
        with locating(f"doc {sample.doc_id}"):
            return [self._scored(scorer, sample, outputs) for scorer in self.scorers if not scorer.deferred]

    def score_together(self, samples: Sequence[tuple[Sample, Sequence[Output]]]) -> list[ScoredSample]:
        """Score all samples at once with the scorers that need all of them."""
        deferred = [scorer for scorer in self.scorers if scorer.deferred]
        return [scored for scorer in deferred for scored in self._scored_together(scorer, samples)]

    def _scored_together(
        self, scorer: Scorer, samples: Sequence[tuple[Sample, Sequence[Output]]]
    ) -> Iterator[ScoredSample]:
        values: dict[int, Values] = {}
        outcomes: dict[int, list[Outcome]] = {}
        for index, (sample, outputs) in enumerate(samples):
            with locating(f"doc {sample.doc_id}"), self._locating_scores():
                results = self._filtered(scorer, sample, outputs)
                processed = self._processed(scorer, sample, results)
                if processed is None:
                    outcomes[index] = self._outcomes(scorer, sample, outputs, results)
                else:
                    values[index] = processed
        if outcomes:
            with self._locating_scores():
                docs = [samples[index][0].doc for index in outcomes]
                computed = self._computing(scorer).score_documents(list(outcomes.values()), docs)
            values |= dict(zip(outcomes, computed, strict=True))
        for index, (sample, outputs) in enumerate(samples):
            yield self._scored(scorer, sample, outputs, values[index])

    def _scored(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], values: Values | None = None
    ) -> ScoredSample:
        steps = [Step(name="completion", value=[output.text for output in outputs if isinstance(output, Completion)])]
        with self._locating_scores():
            results = self._filtered(scorer, sample, outputs, steps)
            if values is None:
                values = self._processed(scorer, sample, results)
            if values is None and self.form.bypassed:
                values = {metric.name: metric.fn(None) for metric in scorer.metrics}
            if values is None:
                outcomes = self._outcomes(scorer, sample, outputs, results)
                values = self._computing(scorer).score_repeats(outcomes)
            if "values" not in self.hooks:
                check_values(values, scorer, lambda key: self._aggregation(scorer, key))
        prediction = self._prediction(scorer, sample, outputs, results)
        if isinstance(scorer, ReadingScorer):
            steps.append(Step(name=f"scorer {type(scorer).__name__}", value=prediction))
        return ScoredSample(
            sample=sample,
            outputs=tuple(outputs),
            scorer=scorer.name,
            filtered=tuple(results),
            values=values,
            prediction=prediction,
            steps=tuple(steps) if self.form.output_type == "generate_until" else (),
        )

    def _prediction(self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]) -> Any:
        """What the model picked or said, for the samples; None where there is no such thing."""
        if self.form.output_type == "multiple_choice":
            scores = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
            ranked = scores[: len(sample.choices)] if sample.choices else scores
            return best(ranked) if ranked else None
        if self.form.output_type != "generate_until":
            return None
        if self.form.compares:
            outcomes = self._outcomes(scorer, sample, outputs, results)
            results = [scorer.prediction(outcome) for outcome in outcomes]
        return results[0] if len(results) == 1 else list(results)

    def computed(self, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]) -> dict[str, Any]:
        """The values of a sample by the metrics of the first scorer, from results that are filtered already."""
        scorer = self.scorers[0]
        return self._computing(scorer).score_repeats(self._outcomes(scorer, sample, outputs, results))

    def _filtered(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], steps: list[Step] | None = None
    ) -> list[Any]:
        """What the filters leave of a sample's outputs; each of their steps is added to `steps`."""
        pipeline = scorer.pipeline
        if steps is not None:
            pipeline = pipeline.recording(lambda name, value: steps.append(Step(name=f"filter {name}", value=value)))
        if "filtered" in self.hooks:
            filtered: list[Any] = self.hooks["filtered"](pipeline, sample, outputs)
            return filtered
        return self.kind.filtered(pipeline, sample.doc, outputs)

    def _outcomes(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]
    ) -> list[Outcome]:
        all_repeats = all(metric.whole for metric in self._computing(scorer).metrics)
        return self.kind.outcomes(self.form, sample, outputs, results, all_repeats=all_repeats)

    def _processed(self, scorer: Scorer, sample: Sample, results: Sequence[Any]) -> Values | None:
        """What `process_results` gives for a document; None where it leaves the document to the metrics.

        It gets the results of permuted choices in the order that the document has them in.
        """
        if not self.form.scores_itself:
            return None
        config = self.form.config
        process = self.hooks.get("process_results") or config.process_results
        assert process is not None
        place = config.where("class" if "process_results" in self.hooks else "process_results")
        with running("process_results", where=place, hint="call it to debug it"):
            values = process(sample.doc, _in_order(results, sample.permutation))
        if values is None:
            return None
        if not isinstance(values, Mapping):
            message = f"process_results returned {type(values).__name__}, not a mapping of metrics"
            raise DataError(message, where=place, hint='return e.g. {"acc": 1.0}')
        if "values" in self.hooks:
            scores: Values = self.hooks["values"](values)
            return scores
        return given_values(scorer, values, lambda key: self._aggregation(scorer, key))

    def _computing(self, scorer: Scorer) -> Scorer:
        """The scorer that computes metrics; of a task with `process_results`, one that does not wait for its values."""
        if not self.form.scores_itself:
            return scorer
        if self._fallback is None:
            try:
                scoring = build_scoring(self.form.config)
            except ConfigError as error:
                message = f"process_results returned None, and the metrics cannot be computed instead: {error.what}"
                hint = "return the values of every document, or name metrics that are registered"
                raise DataError(message, where=error.where, hint=hint) from error
            self._fallback = {computing.name: computing for computing in scoring.scorers}
        return self._fallback[scorer.name]

    def estimates(self, samples: Iterable[ScoredSample], bootstrap_iters: int) -> dict[str, Estimate]:
        """All scores with their uncertainty, keyed ``metric,scorer``."""
        by_scorer: dict[str, list[Values]] = {scorer.name: [] for scorer in self.scorers}
        for sample in samples:
            by_scorer[sample.scorer].append(sample.values)
        return self.value_estimates(by_scorer, bootstrap_iters)

    def first_estimate(self, samples: Sequence[ScoredSample]) -> tuple[str, Estimate] | None:
        """The metric and the score that tables show first, of some of the documents; None where there is none.

        Nothing is bootstrapped, so that scores which need that have no interval.
        """
        for scorer in self.scorers:
            docs = [sample.values for sample in samples if sample.scorer == scorer.name]
            for key in dict.fromkeys(key for doc in docs for key in doc):
                items = [doc[key] for doc in docs if key in doc]
                if key == "bypass" or self._is_note(scorer, key, items):
                    continue
                try:
                    return key, aggregated(self._aggregation(scorer, key), items, 0, key)
                except MultiformError:  # such as one that takes all documents; at the end of a run it is told
                    return None
        return None

    def _is_note(self, scorer: Scorer, key: str, items: Sequence[Any]) -> bool:
        """Whether values are text beside the scores, such as what a judge wrote: for the samples alone."""
        unnamed = key not in self._own_aggregations and scorer.named(key) is None
        return unnamed and all(is_note(item) for item in items)

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
                with self._locating_scores():
                    aggregation = self._aggregation(scorer, key)
                    estimates[f"{key},{scorer.name}"] = aggregated(aggregation, items, bootstrap_iters, key)
            if docs and self.form.scores_itself:
                self._warn_missing(scorer, set(keys))
        return estimates

    def counted_wrong(self, failed: Sequence[tuple[Sample, str]], scored: Sequence[ScoredSample]) -> list[ScoredSample]:
        """Documents whose requests failed, and why, with the worst value of each metric that has one.

        These are the means of values from 0 to 1 over the other documents, which are `scored`.
        """
        worst = {key: float(not better) for key, better in self._rated(scored)}
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
        for (name, key), _ in self._rated(scored):
            values = [float(doc.values[key]) for doc in scored if doc.scorer == name and key in doc.values]
            total, n = math.fsum(values), len(values) + failed
            bounds[f"{key},{name}"] = (total / n, (total + failed) / n)
        return bounds

    def _rated(self, scored: Sequence[ScoredSample]) -> Iterator[tuple[tuple[str, str], bool]]:
        """The scorer and key of each score that is a mean of values from 0 to 1, and whether higher is better."""
        for scorer in self.scorers:
            docs = [doc.values for doc in scored if doc.scorer == scorer.name]
            for key in dict.fromkeys(key for doc in docs for key in doc):
                values = [doc[key] for doc in docs if key in doc]
                rated = all(isinstance(value, int | float) and 0 <= value <= 1 for value in values)
                metric = scorer.named(key)
                if rated and self._aggregation(scorer, key) is mean:
                    yield (scorer.name, key), metric is None or metric.higher_is_better

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
        known = {metric.name for key in keys if (metric := scorer.named(key)) is not None}
        for name in sorted(listed - known - keys - self._warned):
            self._warned.add(name)
            message = "%s: metric '%s' has no score, as process_results gave no document a value of that name"
            logger.warning(message, self.form.config.where("metric_list"), name)

    def _aggregation(self, scorer: Scorer, key: str) -> Aggregation:
        """What aggregates the values of a key: the task's own method, the metric of that name, or the mean."""
        if key in self._own_aggregations:
            return self._own_aggregations[key]
        if not self.form.scores_itself:
            return (scorer.metric(key) or value_metric(key)).aggregation
        metric = scorer.named(key)
        if metric is None and self._fallback is not None:
            computing = self._fallback[scorer.name]
            only = computing.metric(key)  # a function may give several numbers, each under a name of its own
            metric = computing.named(key) or (only if only is not None and only.whole else None)
        return (metric or value_metric(key)).aggregation

    @cached_property
    def _own_aggregations(self) -> dict[str, Aggregation]:
        """The functions of an `aggregation` method that a subclass brings along."""
        if "aggregation" not in self.hooks:
            return {}
        place = self.form.config.where("class")
        with running("aggregation()", where=place, hint="call it to debug it"):
            functions: Any = self.hooks["aggregation"]()
        if not isinstance(functions, Mapping) or not all(callable(function) for function in functions.values()):
            message = f"aggregation() returned {shorten(functions)}, not a mapping of functions"
            raise DataError(message, where=place or self.form.name, hint='return e.g. {"acc": statistics.mean}')
        return {str(key): plain_aggregation(function) for key, function in functions.items()}

    @contextmanager
    def _locating_scores(self) -> Iterator[None]:
        """Say where filters, metrics and scorers were written, which they do not know themselves."""
        config = self.form.config
        try:
            yield
        except (DataError, ConfigError) as error:
            key = "filter_list" if config.filter_list else "metric_list" if config.metric_list else "scorer"
            raise error.or_at(config.where(key)) from error

    def filtered(self, sample: Sample, outputs: Sequence[Output]) -> dict[str, list[Any]]:
        """The filtered responses of a sample, by scorer."""
        return {scorer.name: self._filtered(scorer, sample, outputs) for scorer in self.scorers}


def _in_order(results: Sequence[Any], permutation: Sequence[int] | None) -> Sequence[Any]:
    """The results of permuted choices, in the order of the document; there may be several for each choice.

    >>> _in_order(["b", "c", "a", "B", "C", "A"], (1, 2, 0))
    ['a', 'b', 'c', 'A', 'B', 'C']
    """
    if permutation is None:
        return results
    number = len(permutation)
    positions = sorted(range(number), key=permutation.__getitem__)
    return [results[start + position] for start in range(0, len(results), number) for position in positions]
