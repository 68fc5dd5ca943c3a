"""FormScorer: from the responses to a form's samples to the values of each metric, and to the scores of the form."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, DataError, MultiformError, excerpt, locating, placing, running
from multiform.forms.conversations import merge_turns
from multiform.forms.output_kinds import OutputKind
from multiform.forms.sample import FilteredSample, Sample, ScoredSample, Step, Values
from multiform.forms.scoring import build_scoring, check_reductions
from multiform.forms.spec import FormSpec
from multiform.requests import Completion, LLOutput, Output
from multiform.scoring.aggregations import Aggregation, ItemKind, aggregate_values, item_kind, mean, plain_aggregation
from multiform.scoring.metrics import Metric, value_metric
from multiform.scoring.metrics.choice import best
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import ReadingScorer, Scorer
from multiform.scoring.scorers.base import check_values, is_note, reduce_task_values
from multiform.statistics.estimates import Estimate

logger = logging.getLogger("multiform")


class FormScorer:
    """Filters the responses to the samples of a form, scores them, and aggregates the values of documents.

    A task's own `process_results` comes first; if it returns None, the metrics of the scorers are computed. Values are
    aggregated by the task's own `aggregation`, by the metric of their name, or as their mean.
    """

    def __init__(self, form: FormSpec, output_kind: OutputKind) -> None:
        self.form = form
        self.hooks = form.hooks
        self.scorers = form.scoring.scorers
        self._output_kind = output_kind
        #: The scorers of documents for which `process_results` returns None, by name; there are none before.
        self._fallback: dict[str, Scorer] = {}
        self._warned: set[str] = set()
        #: Says where filters, metrics and scorers were written, which they do not know themselves.
        self._placing = placing(form.where_stated("filter_list", "metric_list", "scorer"))
        if (process := form.config.process_results) is not None:
            what = f"{name_of(process)} cannot be called with a document and its results"
            hint, place = "write it as process_results(doc, results)", form.where("process_results")
            check_call(process, {}, [], what=what, where=place, hint=hint)

    def check(self) -> list[ConfigError]:
        """Refuse reductions that need more responses than there will be; return warnings about others."""
        form = self.form
        return [] if form.scores_itself else check_reductions(form.config, self.scorers, generates=form.generates)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all samples."""
        results: list[ScoredSample] = []
        with locating(f"doc {sample.doc_id}"), self._placing:
            for scorer in self.scorers:
                if not scorer.deferred:
                    filtered = self._filter_sample(scorer, sample, outputs)
                    self._compute(scorer, [filtered])
                    results.append(self._scored_sample(scorer, filtered))
        return results

    def score_together(self, samples: Sequence[tuple[Sample, Sequence[Output]]]) -> list[ScoredSample]:
        """Score all samples at once with the scorers that need all of them."""
        results: list[ScoredSample] = []
        for scorer in (each for each in self.scorers if each.deferred):
            filtered = []
            for sample, outputs in samples:
                with locating(f"doc {sample.doc_id}"), self._placing:
                    filtered.append(self._filter_sample(scorer, sample, outputs))
            with self._placing:
                self._compute(scorer, filtered)
                results += [self._scored_sample(scorer, each) for each in filtered]
        return results

    def _filter_sample(self, scorer: Scorer, sample: Sample, outputs: Sequence[Output]) -> FilteredSample:
        steps = [Step(name="completion", value=[output.text for output in outputs if isinstance(output, Completion)])]
        results = self._filter(scorer, sample, outputs, steps)
        values = self._task_values(scorer, sample, results)
        if values is None and self.form.bypassed:
            values = {metric.name: metric.fn(None) for metric in scorer.metrics}
        filtered = FilteredSample(sample, outputs, results, steps, values)
        if values is None:
            filtered.turns = self._turns(scorer, filtered)
        return filtered

    def _scored_sample(self, scorer: Scorer, filtered: FilteredSample) -> ScoredSample:
        values, steps = filtered.values or {}, filtered.steps
        if "values" not in self.hooks:
            check_values(values, scorer, self._item_kinds(scorer, values))
        prediction = self._prediction(scorer, filtered)
        if isinstance(scorer, ReadingScorer):
            steps.append(Step(name=f"scorer {type(scorer).__name__}", value=prediction))
        return ScoredSample(
            sample=filtered.sample,
            outputs=tuple(filtered.outputs),
            scorer=scorer.name,
            filtered=tuple(filtered.results),
            values=values,
            prediction=prediction,
            steps=tuple(steps) if self.form.output_type == "generate_until" else (),
        )

    def _prediction(self, scorer: Scorer, filtered: FilteredSample) -> Any:
        """What the model picked or said, for the samples; None if there is no such thing."""
        if self.form.output_type == "multiple_choice":
            scores = [output.loglikelihood for output in filtered.outputs if isinstance(output, LLOutput)]
            number = len(filtered.sample.choices) or len(scores)
            repeats = self.form.config.repeats if self.form.generates else 1
            ranked = [scores[number * repeat : number * (repeat + 1)] for repeat in range(repeats)]
            picked = [best(each) for each in ranked if each]
            return picked if repeats > 1 else picked[0] if picked else None
        if self.form.output_type != "generate_until":
            return None
        results = list(filtered.results)
        if self.form.compares:
            results = [scorer.prediction(outcome) for outcomes in filtered.turns for outcome in outcomes]
        return results[0] if len(results) == 1 else results

    def compute_values(self, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]) -> dict[str, Any]:
        """The values of a sample by the metrics of the first scorer, from results that are filtered already."""
        filtered, scorer = FilteredSample(sample, outputs, results), self.scorers[0]
        filtered.turns = self._turns(scorer, filtered)
        self._compute(scorer, [filtered])
        return dict(filtered.values or {})

    def _compute(self, scorer: Scorer, samples: Sequence[FilteredSample]) -> None:
        """Compute the values that samples lack, for each turn of a conversation by itself."""
        unscored = [sample for sample in samples if sample.values is None]
        if not unscored:
            return
        outcomes = [sample.turns[turn] for sample in unscored for turn in sample.scored_turns]
        docs = [sample.turn_doc(turn) for sample in unscored for turn in sample.scored_turns]
        computed = iter(self._computing_scorer(scorer).score_documents(outcomes, docs))
        for sample in unscored:
            by_turn = {turn + 1: next(computed) for turn in sample.scored_turns}
            sample.values = by_turn[1] if len(sample.turns) == 1 else merge_turns(scorer, by_turn)

    def _filter(self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], steps: list[Step]) -> list[Any]:
        """What the filters leave of a sample's outputs; each of their steps is added to `steps`."""
        needed = self._output_kind.needed_outputs(sample)
        if len(outputs) < needed:
            message = f"only {len(outputs)} of {needed} responses are there: later requests follow from earlier ones"
            raise DataError(message, where=self.form.name, hint="run the task with multiform.evaluate")
        pipeline = scorer.pipeline
        if pipeline.steps:
            record = lambda name, value: steps.append(Step(name=f"filter {name}", value=value))  # noqa: E731
            pipeline = replace(pipeline, record=record)
        if "filtered" in self.hooks:
            return list(self.hooks["filtered"](pipeline, sample, outputs))
        return self._output_kind.filter_outputs(pipeline, sample.doc, outputs)

    def _turns(self, scorer: Scorer, filtered: FilteredSample) -> list[list[Outcome]]:
        all_repeats = all(metric.whole for metric in self._computing_scorer(scorer).metrics)
        return self._output_kind.outcomes(filtered, all_repeats=all_repeats)

    def _task_values(self, scorer: Scorer, sample: Sample, results: Sequence[Any]) -> Values | None:
        """What `process_results` gives for a document; None if it leaves the document to the metrics.

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
        return reduce_task_values(scorer, values, self._item_kinds(scorer, values))

    def _computing_scorer(self, scorer: Scorer) -> Scorer:
        """The scorer that computes metrics; of a task with `process_results`, one that does not wait for its values."""
        if not self.form.scores_itself:
            return scorer
        if not self._fallback:
            try:
                scoring = build_scoring(self.form.config)
            except ConfigError as error:
                message = f"process_results returned None, and the metrics cannot be computed instead: {error.what}"
                hint = "return the values of every document, or name metrics that are registered"
                raise DataError(message, where=error.where, hint=hint) from error
            self._fallback |= {computing.name: computing for computing in scoring.scorers}
        return self._fallback[scorer.name]

    @property
    def _all_scorers(self) -> list[Scorer]:
        return [*self.scorers, *self._fallback.values()]

    @property
    def value_names(self) -> list[dict[str, str]]:
        """For each scorer, the values that metrics have named themselves while they scored, by their metric's name."""
        return [{name: metric.name for name, metric in each.value_metrics.items()} for each in self._all_scorers]

    def add_value_names(self, value_names: Sequence[Mapping[str, str]]) -> None:
        """Take the names of values that another process has scored."""
        if len(value_names) > len(self.scorers):
            self._computing_scorer(self.scorers[0])
        for scorer, names in zip(self._all_scorers, value_names, strict=False):
            metrics = {metric.name: metric for metric in scorer.metrics}
            scorer.value_metrics |= {name: metrics[metric] for name, metric in names.items() if metric in metrics}

    def keep_filtered(self, sample: Sample, outputs: Sequence[Output]) -> None:
        """Keep the filtered responses to a document on the scorers and on its instances."""
        for scorer in self.scorers:
            filtered = scorer.filtered_docs[sample.doc_id] = self._filter(scorer, sample, outputs, [])
            one_per_request = len(filtered) == len(sample.instances)
            for index, instance in enumerate(sample.instances):
                instance.filtered_resps[scorer.name] = (
                    filtered[index] if one_per_request else filtered[0] if len(filtered) == 1 else filtered
                )

    def keep_scored(self, scored: Sequence[ScoredSample]) -> None:
        """Keep the filtered responses and the values of documents on the scorers."""
        for scorer in self.scorers:
            results = [result for result in scored if result.scorer == scorer.name]
            scorer.filtered_docs = {result.doc_id: result.filtered for result in results}
            scorer.scored_docs = {result.doc_id: result.values for result in results}

    # Scores of the form.

    @property
    def metrics(self) -> list[Metric]:
        """All metrics that the form has scores of."""
        return list({metric.name: metric for scorer in self._all_scorers for metric in scorer.metrics}.values())

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
        if metric is None and scorer.name in self._fallback:
            computing = self._fallback[scorer.name]
            only = computing.metric(key)  # a function may give several numbers, each under a name of its own
            metric = computing.metric_named(key) or (only if only is not None and only.whole else None)
        return (metric or value_metric(key)).aggregation

    def _item_kinds(self, scorer: Scorer, values: Values) -> dict[str, ItemKind]:
        """What the aggregation of each value takes."""
        return {str(key): item_kind(self.aggregation(scorer, str(key))) for key in values}

    @cached_property
    def _own_aggregations(self) -> dict[str, Aggregation]:
        """The functions of an `aggregation` method that a subclass brings along."""
        if "aggregation" not in self.form.hooks:
            return {}
        place = self.form.config.where("class")
        with running("aggregation()", where=place, hint="call it to debug it"):
            functions: Any = self.form.hooks["aggregation"]()
        if not isinstance(functions, Mapping) or not all(callable(function) for function in functions.values()):
            message = f"aggregation() returned {excerpt(functions)}, not a mapping of functions"
            raise DataError(message, where=place or self.form.name, hint='return e.g. {"acc": statistics.mean}')
        return {str(key): plain_aggregation(function) for key, function in functions.items()}

    def estimates(self, samples: Iterable[ScoredSample], bootstrap_iters: int) -> dict[str, Estimate]:
        """All scores with their uncertainty, keyed ``metric,scorer``."""
        estimates: dict[str, Estimate] = {}
        for scorer, number, items_by_key in self._items(samples):
            for key, items in items_by_key.items():
                if self._is_note(scorer, key, items):
                    continue
                if len(items) < number and key not in self._warned:
                    self._warned.add(key)
                    message = "%s: '%s' is over %d of %d documents, as the others have no value of that name"
                    logger.warning(message, self.form.name, key, len(items), number)
                with self._placing:
                    aggregation = self.aggregation(scorer, key)
                    estimates[f"{key},{scorer.name}"] = aggregate_values(aggregation, items, bootstrap_iters, key)
            if number and self.form.scores_itself:
                self._warn_missing(scorer, set(items_by_key))
        return estimates

    def first_estimate(self, samples: Iterable[ScoredSample]) -> tuple[str, Estimate] | None:
        """The metric and the score that tables show first, of some of the documents; None if there is none.

        Nothing is bootstrapped, so that scores which need that have no interval.
        """
        for scorer, _, items_by_key in self._items(samples):
            for key, items in items_by_key.items():
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
        worst: dict[str, dict[str, float]] = {scorer.name: {} for scorer in self.scorers}
        for scorer, key, _ in self._unit_means(scored):
            metric = scorer.metric_named(key)
            worst[scorer.name][key] = float(metric is not None and not metric.higher_is_better)
        return [
            ScoredSample(sample=sample, outputs=(), scorer=name, filtered=(), values=values, failure=reason)
            for name, values in worst.items()
            for sample, reason in failed
        ]

    def bounds(self, scored: Sequence[ScoredSample], failed: int) -> dict[str, tuple[float, float]]:
        """The lowest and highest score that each mean of values from 0 to 1 can have, whatever failed documents get."""
        bounds = {}
        for scorer, key, values in self._unit_means(scored):
            total, n = math.fsum(values), len(values) + failed
            bounds[f"{key},{scorer.name}"] = (total / n, (total + failed) / n)
        return bounds

    def _unit_means(self, scored: Iterable[ScoredSample]) -> Iterator[tuple[Scorer, str, list[Any]]]:
        """The scorer, key and values of each score that is a mean of values from 0 to 1."""
        for scorer, _, items_by_key in self._items(scored):
            for key, values in items_by_key.items():
                rated = all(isinstance(value, int | float) and 0 <= value <= 1 for value in values)
                if rated and self.aggregation(scorer, key) is mean:
                    yield scorer, key, values

    def _items(self, samples: Iterable[ScoredSample]) -> Iterator[tuple[Scorer, int, dict[str, list[Any]]]]:
        """For each scorer the number of its samples, and the values of each key, of those that have one."""
        values: dict[str, list[Values]] = {scorer.name: [] for scorer in self.scorers}
        for sample in samples:
            values[sample.scorer].append(sample.values)
        for scorer in self.scorers:
            docs = values[scorer.name]
            keys = dict.fromkeys(key for doc in docs for key in doc)
            yield scorer, len(docs), {key: [doc[key] for doc in docs if key in doc] for key in keys}

    def _is_note(self, scorer: Scorer, key: str, items: Sequence[Any]) -> bool:
        """Whether values are text beside the scores, such as what a judge wrote: for the samples alone."""
        unnamed = key not in self._own_aggregations and scorer.metric_named(key) is None
        return unnamed and all(is_note(item) for item in items)

    def _warn_missing(self, scorer: Scorer, keys: set[str]) -> None:
        """Say once that a metric of the task's list has no score."""
        specs = [spec["metric"] for spec in self.form.config.metric_list]
        listed = {name_of(metric) if callable(metric) else metric for metric in specs}
        known = {metric.name for key in keys if (metric := scorer.metric_named(key)) is not None}
        for name in sorted(listed - known - keys - self._warned):
            self._warned.add(name)
            message = "%s: metric '%s' has no score, as process_results gave no document a value of that name"
            logger.warning(message, self.form.config.where("metric_list"), name)


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


def scores_with_errors(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """The scores, keyed ``metric,scorer``, with their standard errors, as lm-eval names them."""
    scores: dict[str, float] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        scores[key] = estimate.value
        if estimate.stderr is not None:
            scores[f"{metric}_stderr,{scorer}"] = estimate.stderr
    return scores
