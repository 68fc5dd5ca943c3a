"""The scores of a task: what its documents come to, by its own code or by its scorers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from multiform.calls import mismatch, name_of
from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, UsageError, running, shorten
from multiform.fields import Doc
from multiform.requests import LLOutput
from multiform.scoring.aggregations import (
    DEFAULT_ITERATIONS,
    Aggregation,
    aggregated,
    plain_aggregation,
)
from multiform.scoring.build import Scoring, build_scoring
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric, value_metric
from multiform.scoring.outcome import Outcome
from multiform.scoring.repeats import check_reductions
from multiform.scoring.scorers import Scorer
from multiform.scoring.statistics import Estimate
from multiform.scoring.values import check_values, given_values, is_note
from multiform.tasks.reader import placing
from multiform.tasks.records import Answered, ScoredDoc
from multiform.tasks.requesting import TaskRequests

logger = logging.getLogger("multiform")


class TaskScores(TaskRequests):
    """Scores the answers of documents, and aggregates the scores.

    `process_results` comes first; where it returns None, the metrics of the scorer are computed.
    """

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        self._only_metric = False
        self._noted: set[str] = set()
        self._check_process_results()
        self.scoring: Scoring = self._build_scoring()

    def _build_scoring(self) -> Scoring:
        #: The scorers of documents for which `process_results` returns None, by name.
        self._computing: dict[str, Scorer] | None = None
        return build_scoring(self.config, own_results=self._scores_itself, only=self._only_metric)

    def check_scoring(self) -> list[ConfigError]:
        """Refuse reductions that cannot be computed from the answers there will be; return what is odd about others."""
        return [] if self._scores_itself else check_reductions(self.config, self.scoring.scorers)

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        """What the metrics see of a document, once for each repeat that is left after filtering."""
        raise NotImplementedError("a task becomes one of its output type, which has it")

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        """The outputs as filters and task code want them, filtered; a subclass may ask for several kinds of them."""
        return [
            (output.loglikelihood, output.is_greedy)
            if isinstance(output, LLOutput)
            else pipeline([output.text], doc)[0]
            for output in outputs
        ]

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of a document by the task's own code, or None to have the metrics compute them.

        `results` are pairs of log-likelihood and greedy flag, log-likelihoods of whole texts, or texts.
        """
        function = self.config.process_results
        return None if function is None else function(doc, results)

    @overload
    def apply_filters(self) -> None: ...
    @overload
    def apply_filters(self, answered: Answered) -> dict[str, list[Any]]: ...
    def apply_filters(self, answered: Answered | None = None) -> dict[str, list[Any]] | None:
        """What each scorer's filters leave of a document's answers.

        Without an argument, of all `instances`: it is kept in their `filtered_resps` and in the scorers'
        `filtered_docs`.
        """
        if answered is not None:
            doc, scorers = self.eval_docs[answered.doc_id], self.scoring.scorers
            return {scorer.name: self.filtered(scorer.pipeline, doc, answered.outputs) for scorer in scorers}
        for one in self.answered():
            for scorer, left in zip(self.scoring.scorers, self.apply_filters(one).values(), strict=True):
                scorer.filtered_docs[one.doc_id] = left
                for index, instance in enumerate(one.instances):
                    each = len(left) == len(one.instances)
                    instance.filtered_resps[scorer.name] = left[index] if each else left[0] if len(left) == 1 else left
        return None

    def process_instances(self, answered: Answered | None = None) -> list[ScoredDoc]:
        """Filter and score one document, once for each scorer that does not wait for all documents.

        Without an argument, all documents of `instances`, by all scorers, which keep the values for `aggregate`.
        """
        if answered is not None:
            with placing(f"doc {answered.doc_id}"):
                return [self._scored(scorer, answered) for scorer in self.scoring.scorers if not scorer.deferred]
        every = self.answered()
        scored = [doc for one in every for doc in self.process_instances(one)] + self.process_deferred(every)
        for scorer in self.scoring.scorers:
            mine = [doc for doc in scored if doc.scorer == scorer.name]
            scorer.filtered_docs = {doc.doc_id: doc.filtered for doc in mine}
            scorer.scored_docs = {doc.doc_id: doc.values for doc in mine}
        return scored

    def process_deferred(self, answered: Sequence[Answered]) -> list[ScoredDoc]:
        """Score all documents at once with the scorers that want that."""
        return [
            doc for scorer in self.scoring.scorers if scorer.deferred for doc in self._scored_together(scorer, answered)
        ]

    def _scored_together(self, scorer: Scorer, answered: Sequence[Answered]) -> list[ScoredDoc]:
        docs = [self.eval_docs[one.doc_id] for one in answered]
        values: list[Mapping[str, Any] | None] = []
        outcomes: dict[int, list[Outcome]] = {}
        for index, (doc, one) in enumerate(zip(docs, answered, strict=True)):
            with placing(f"doc {one.doc_id}"), self._scoring_errors():
                results = self.filtered(scorer.pipeline, doc, one.outputs)
                values.append(self._own_values(scorer, doc, results))
                if values[-1] is None:
                    self._computes(scorer)
                    outcomes[index] = self.outcomes(doc, one, results)
        if outcomes:
            with self._scoring_errors():
                every = self._computes(scorer).score_documents(list(outcomes.values()), [docs[i] for i in outcomes])
            for index, computed in zip(outcomes, every, strict=True):
                values[index] = computed
        return [self._scored(scorer, one, own) for one, own in zip(answered, values, strict=True)]

    def _scored(self, scorer: Scorer, answered: Answered, values: Mapping[str, Any] | None = None) -> ScoredDoc:
        doc = self.eval_docs[answered.doc_id]
        with self._scoring_errors():
            results = self.filtered(scorer.pipeline, doc, answered.outputs)
            if values is None:
                values = self._own_values(scorer, doc, results)
            if values is None and self._bypassed:
                values = {metric.name: metric.fn(None) for metric in scorer.metrics}
            if values is None:
                values = self._computes(scorer).score_repeats(self.outcomes(doc, answered, results))
            check_values(values, scorer, lambda key: self._aggregation(scorer, key))
        return ScoredDoc(
            doc_id=answered.doc_id,
            doc=doc,
            target=self.doc_to_target(doc),
            instances=answered.instances,
            outputs=answered.outputs,
            scorer=scorer.name,
            filtered=tuple(results),
            values=values,
        )

    def _own_values(self, scorer: Scorer, doc: Doc, results: Sequence[Any]) -> dict[str, Any] | None:
        """What `process_results` gives for a document; None where it leaves the document to the metrics."""
        if not self._scores_itself:
            return None
        place = self.config.where("process_results")
        with running("process_results", where=place, hint="call it to debug it"):
            values: Any = self.process_results(doc, results)
        if values is None:
            return None
        if not isinstance(values, Mapping):
            what = f"process_results returned {type(values).__name__}, not a mapping of metrics"
            raise DataError(what, where=place, hint='return e.g. {"acc": 1.0}')
        return self._one_each(scorer, values)

    def _one_each(self, scorer: Scorer, values: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The values of a task's own code, lists of repeated values reduced to one."""
        if values is None:
            return None
        return given_values(scorer, values, lambda key: self._aggregation(scorer, key))

    def _computes(self, scorer: Scorer) -> Scorer:
        """The scorer that computes metrics: of a task with `process_results`, one that does not wait for its values."""
        if not self._scores_itself:
            return scorer
        if self._computing is None:
            try:
                made = build_scoring(self.config)
            except ConfigError as error:
                what = f"process_results returned None, and the metrics cannot be computed instead: {error.what}"
                hint = "return the values of every document, or name metrics that are registered"
                raise DataError(what, where=error.where, hint=hint) from error
            self._computing = {computing.name: computing for computing in made.scorers}
        return self._computing[scorer.name]

    @overload
    def aggregate(self) -> tuple[dict[str, float], int]: ...
    @overload
    def aggregate(
        self, scored: Iterable[ScoredDoc] | None = None, bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> tuple[dict[str, float], int]: ...
    def aggregate(
        self, scored: Iterable[ScoredDoc] | None = None, bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> tuple[dict[str, float], int]:
        """All scores, keyed ``metric,scorer``, with standard errors, and the number of documents.

        Without documents, of those that `process_instances()` scored and the scorers keep.
        """
        docs = None if scored is None else list(scored)
        if docs is None:
            ids = {doc_id for scorer in self.scoring.scorers for doc_id in scorer.scored_docs}
            if not ids:
                raise UsageError("no document is scored yet", where=self.name, hint="call process_instances() first")
            kept = {scorer.name: list(scorer.scored_docs.values()) for scorer in self.scoring.scorers}
            estimates = self._estimates(kept, bootstrap_iters)
        else:
            ids = {doc.doc_id for doc in docs}
            estimates = self.estimates(docs, bootstrap_iters)
        values: dict[str, float] = {}
        for key, estimate in estimates.items():
            metric, _, scorer = key.partition(",")
            values[key] = estimate.value
            if estimate.stderr is not None:
                values[f"{metric}_stderr,{scorer}"] = estimate.stderr
        return values, len(ids)

    def estimates(self, scored: Iterable[ScoredDoc], bootstrap_iters: int = DEFAULT_ITERATIONS) -> dict[str, Estimate]:
        """All scores of a form with their uncertainty, keyed ``metric,scorer``."""
        docs = list(scored)
        names = [scorer.name for scorer in self.scoring.scorers]
        return self._estimates(
            {name: [doc.values for doc in docs if doc.scorer == name] for name in names}, bootstrap_iters
        )

    def _estimates(
        self, values: Mapping[str, Sequence[Mapping[str, Any]]], bootstrap_iters: int
    ) -> dict[str, Estimate]:
        found: dict[str, Estimate] = {}
        for scorer in self.scoring.scorers:
            docs = values[scorer.name]
            for key in dict.fromkeys(key for doc in docs for key in doc):
                items = [doc[key] for doc in docs if key in doc]
                if (
                    key not in self._own_aggregations
                    and scorer.named(key) is None
                    and all(is_note(item) for item in items)
                ):
                    continue  # text beside the values, such as what a judge wrote: for the samples alone
                if len(items) < len(docs):
                    self._note_partial(key, len(items), len(docs))
                with self._scoring_errors():
                    aggregation = self._aggregation(scorer, key)
                    found[f"{key},{scorer.name}"] = aggregated(aggregation, items, bootstrap_iters, key)
            if docs and self._scores_itself:
                self._note_missing(scorer, {key for doc in docs for key in doc})
        return found

    def _note_partial(self, key: str, number: int, every: int) -> None:
        """Say once that a metric leaves documents out."""
        if key not in self._noted:
            self._noted.add(key)
            told = "%s: '%s' is over %d of %d documents, as the others have no value of that name"
            logger.warning(told, self.name, key, number, every)

    def _note_missing(self, scorer: Scorer, keys: set[str]) -> None:
        """Say once that a metric of the task's list has no score."""
        listed = {
            name_of(spec["metric"]) if callable(spec["metric"]) else spec["metric"] for spec in self.config.metric_list
        }
        known = {metric.name for key in keys if (metric := scorer.named(key)) is not None}
        for name in sorted(listed - known - keys - self._noted):
            self._noted.add(name)
            told = "%s: metric '%s' has no score, as process_results gave no document a value of that name"
            logger.warning(told, self.config.where("metric_list"), name)

    def _aggregation(self, scorer: Scorer, key: str) -> Aggregation:
        """What aggregates the values of a key: the task's own method, the metric of that name, or the mean."""
        if key in self._own_aggregations:
            return self._own_aggregations[key]
        if not self._scores_itself:
            return (scorer.metric(key) or value_metric(key)).aggregation
        metric = scorer.named(key)
        if metric is None and self._computing is not None:
            computing = self._computing[scorer.name]
            only = computing.metric(key)  # a function may give several numbers, each under a name of its own
            metric = computing.named(key) or (only if only is not None and only.whole else None)
        return (metric or value_metric(key)).aggregation

    @cached_property
    def _own_aggregations(self) -> dict[str, Aggregation]:
        """The aggregations of an `aggregation` method that a subclass brings along."""
        if type(self).aggregation is TaskScores.aggregation:
            return {}
        with running("aggregation()", where=self.config.where("class")):
            own: Any = self.aggregation()
        if not isinstance(own, Mapping) or not all(callable(function) for function in own.values()):
            what = f"aggregation() of {type(self).__name__} returned {shorten(own)}, not a mapping of functions"
            raise DataError(what, where=self.name, hint='return e.g. {"acc": statistics.mean}')
        return {str(key): plain_aggregation(function) for key, function in own.items()}

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """The function that aggregates each metric."""
        return {metric.name: _value_of(metric) for metric in self._metrics()}

    def higher_is_better(self) -> dict[str, bool]:
        return {metric.name: metric.higher_is_better for metric in self._metrics()}

    @property
    def _scores_itself(self) -> bool:
        """Whether the task's own code gives the values of its metrics."""
        overridden = type(self).process_results is not TaskScores.process_results
        return not self._only_metric and (overridden or self.config.process_results is not None)

    @property
    def _bypassed(self) -> bool:
        """Whether nothing is computed, as with `predict_only`."""
        return self._only_metric and all(metric.name == "bypass" for metric in self._metrics())

    @property
    def _compares(self) -> bool:
        """Whether metrics compare the answers with what is right."""
        return not self._scores_itself and not self._bypassed

    def _metrics(self) -> list[Metric]:
        return [metric for scorer in (*self.scoring.scorers, *self._computed_by()) for metric in scorer.metrics]

    def _computed_by(self) -> Iterable[Scorer]:
        """The scorers whose metrics are computed."""
        if not self._scores_itself:
            return self.scoring.scorers
        return self._computing.values() if self._computing is not None else ()

    def _check_process_results(self) -> None:
        function = self.config.process_results
        problem = None if function is None else mismatch(function, {}, [])
        if problem is not None:
            what = f"{name_of(function)} cannot be called with a document and its results: {problem}"
            raise ConfigError(
                what, where=self.config.where("process_results"), hint="write it as process_results(doc, results)"
            )

    def _scoring_errors(self) -> placing_scores:
        return placing_scores(self.config)


class placing_scores:  # noqa: N801  (it reads as a verb: with placing_scores(config))
    """Adds where they were written to the errors of filters, metrics and scorers, which do not know it."""

    def __init__(self, config: TaskConfig) -> None:
        self.config = config

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, DataError | ConfigError) or error.where:
            return
        config = self.config
        key = "filter_list" if config.filter_list else "metric_list" if config.metric_list else "scorer"
        raise type(error)(error.what, where=config.where(key), hint=error.hint) from error


def _value_of(metric: Metric) -> Callable[[Sequence[Any]], float]:
    """The aggregation as a function of the values alone; it says which one it is."""

    def value(items: Sequence[Any]) -> float:
        return metric.aggregation(items, 0).value

    value.aggregation = metric.aggregation  # type: ignore[attr-defined]
    return value
