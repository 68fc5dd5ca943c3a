"""Task: one benchmark under one format, from documents to requests to scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, MultiformError, reason
from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.scoring.aggregations import DEFAULT_ITERATIONS, plain_aggregation
from multiform.scoring.build import Scoring, build_scoring
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric, value_metric
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import Scorer
from multiform.scoring.statistics import Estimate
from multiform.tasks.reader import placing
from multiform.tasks.records import Answered, ScoredDoc
from multiform.tasks.requesting import TaskRequests
from multiform.tasks.unsupported import refuse_unsupported

_KINDS: dict[str, type[Task]] = {}


class Task(TaskRequests):
    """A benchmark under one format. `from_config` gives the subclass that fits the output type."""

    OUTPUT_TYPE: ClassVar[OutputType]
    #: Whether the class gets all keys of a task file, and says itself which of them it knows.
    any_keys: ClassVar[bool] = False

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        refuse_unsupported(self.config)
        self._check_sampler()
        self._only_metric = False
        self.scoring: Scoring = build_scoring(self.config, own_results=self._scores_itself)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "OUTPUT_TYPE" in cls.__dict__:
            _KINDS.setdefault(cls.OUTPUT_TYPE, cls)

    @classmethod
    def from_config(cls, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> Task:
        """The task of the right kind for the configuration's output type."""
        made = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        kind = made._task_class or _KINDS[made.output_type]
        if not issubclass(kind, Task):
            what = f"{kind.__name__} is not a subclass of multiform.Task"
            raise ConfigError(what, where=made.where("class"), hint="subclass MultipleChoiceTask or GenerateTask")
        return kind.of_config(made, dataset_mirror=dataset_mirror)

    @classmethod
    def of_config(cls, config: TaskConfig, *, dataset_mirror: Path | None = None) -> Task:
        """The task of this class; a class whose constructor takes other arguments overrides it."""
        return cls(config, dataset_mirror=dataset_mirror)

    @property
    def notes(self) -> list[MultiformError]:
        """What is odd about the task's files but no reason to refuse them."""
        source = self.config._source
        return [*(source.notes if source is not None else ()), *self.scoring.notes]

    @abstractmethod
    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        """What the metrics see of a document, once for each repeat that is left after filtering."""

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of a document by the task's own code, or None to have the metrics compute them.

        `results` are pairs of log-likelihood and greedy flag, log-likelihoods of whole texts, or texts.
        """
        function = self.config.process_results
        if function is None:
            return None
        try:
            made = function(doc, results)
        except MultiformError:
            raise
        except Exception as error:  # a user's function may raise anything
            what = f"process_results failed: {reason(error)}"
            raise DataError(what, where=self.config.where("process_results"), hint="call it to debug it") from error
        if not isinstance(made, Mapping):
            what = f"process_results returned {type(made).__name__}, not a mapping of metrics"
            raise DataError(what, where=self.config.where("process_results"), hint='return e.g. {"acc": 1.0}')
        return made

    def process_instances(self, answered: Answered) -> list[ScoredDoc]:
        """Filter and score one document, once for each scorer that does not wait for all documents."""
        with placing(f"doc {answered.doc_id}"):
            return [self._scored(scorer, answered) for scorer in self.scoring.scorers if not scorer.deferred]

    def process_deferred(self, answered: Sequence[Answered]) -> list[ScoredDoc]:
        """Score all documents at once with the scorers that want that."""
        made: list[ScoredDoc] = []
        for scorer in self.scoring.scorers:
            if scorer.deferred:
                docs = [self.eval_docs[one.doc_id] for one in answered]
                outcomes = [
                    self.outcomes(doc, one, self.filtered(scorer.pipeline, doc, one.outputs))
                    for doc, one in zip(docs, answered, strict=True)
                ]
                every = scorer.score_instances(outcomes, docs)
                made += [self._scored(scorer, one, values) for one, values in zip(answered, every, strict=True)]
        return made

    def _scored(self, scorer: Scorer, answered: Answered, values: Mapping[str, Any] | None = None) -> ScoredDoc:
        doc = self.eval_docs[answered.doc_id]
        try:
            results = self.filtered(scorer.pipeline, doc, answered.outputs)
            if values is None and self._scores_itself:
                values = self._one_each(scorer, self.process_results(doc, results))
            if values is None:
                values = scorer.score_repeats(self.outcomes(doc, answered, results))
        except DataError as error:  # of a filter or metric, which do not know where they were written
            place = error.where or self.config.where("filter_list" if self.config.filter_list else "metric_list")
            raise DataError(error.what, where=place, hint=error.hint) from error
        target = self.doc_to_target(doc)
        return ScoredDoc(
            doc_id=answered.doc_id,
            doc=doc,
            target=target,
            instances=answered.instances,
            outputs=answered.outputs,
            scorer=scorer.name,
            filtered=tuple(results),
            values=values,
            prediction=self.prediction(scorer, doc, answered, results),
            gold=self.gold_of(doc, target),
        )

    def prediction(self, scorer: Scorer, doc: Doc, answered: Answered, results: Sequence[Any]) -> Any:
        """What the model picked or said about a document, for the samples; None where there is no such thing."""
        return None

    def gold_of(self, doc: Doc, target: Any) -> Any:
        """What would have been right, in the terms of the prediction."""
        return target

    def _one_each(self, scorer: Scorer, values: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The values of a task's own code, lists of them reduced where their mean is to be taken."""
        if values is None:
            return None
        made: dict[str, Any] = {}
        for key, value in values.items():
            metric = scorer.metric(key) or value_metric(key)
            listed = isinstance(value, list) and value and metric.aggregation is value_metric(key).aggregation
            made |= scorer.reduced([{key: one} for one in value]) if listed else {key: value}
        return made

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        """The outputs as filters and task code want them, filtered."""
        return [(output.loglikelihood, output.is_greedy) for output in outputs]

    def aggregate(
        self, scored: Iterable[ScoredDoc], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> tuple[dict[str, float], int]:
        """All scores of a form, keyed ``metric,scorer``, with standard errors, and the number of documents."""
        docs = list(scored)
        values: dict[str, float] = {}
        for key, estimate in self.estimates(docs, bootstrap_iters).items():
            metric, _, scorer = key.partition(",")
            values[key] = estimate.value
            if estimate.stderr is not None:
                values[f"{metric}_stderr,{scorer}"] = estimate.stderr
        return values, len({doc.doc_id for doc in docs})

    def estimates(self, scored: Iterable[ScoredDoc], bootstrap_iters: int = DEFAULT_ITERATIONS) -> dict[str, Estimate]:
        """All scores of a form with their uncertainty, keyed ``metric,scorer``."""
        docs = list(scored)
        own = self.aggregation() if type(self).aggregation is not Task.aggregation else {}
        found: dict[str, Estimate] = {}
        for scorer in self.scoring.scorers:
            values = [doc.values for doc in docs if doc.scorer == scorer.name]
            for key in dict.fromkeys(key for value in values for key in value):
                items = [value[key] for value in values if key in value]
                named = {*own, *(metric.name for metric in scorer.metrics)}
                if key not in named and all(isinstance(item, str) for item in items):
                    continue  # text beside the values, such as what a judge wrote: for the samples alone
                metric = scorer.metric(key) or value_metric(key)
                aggregation = plain_aggregation(own[key]) if key in own else metric.aggregation
                try:
                    found[f"{key},{scorer.name}"] = aggregation(items, bootstrap_iters)
                except DataError as error:
                    place = self.config.where("metric_list")
                    raise DataError(error.what, where=place, hint=error.hint) from error
        return found

    def apply_filters(self, answered: Answered) -> dict[str, list[Any]]:
        """What each scorer's filters leave of a document's answers."""
        doc = self.eval_docs[answered.doc_id]
        return {scorer.name: self.filtered(scorer.pipeline, doc, answered.outputs) for scorer in self.scoring.scorers}

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """The function that aggregates each metric."""
        return {metric.name: _value_of(metric) for metric in self._metrics()}

    def higher_is_better(self) -> dict[str, bool]:
        return {metric.name: metric.higher_is_better for metric in self._metrics()}

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric instead of all others; the task's own code does not score any more."""
        self.config.metric_list = [{"metric": metric_name}]
        self.config.filter_list = [{"name": f["name"], "filter": f["filter"]} for f in self.config.filter_list]
        self.config.scorer = None
        self.config.process_results = None
        self._only_metric = True
        self.scoring = build_scoring(self.config, own_results=False, only=True)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        super().set_config(key, value, update)
        if key in ("metric_list", "filter_list", "scorer", "process_results"):
            self.scoring = build_scoring(self.config, own_results=self._scores_itself)

    def set_repeats(self, repeats: int) -> None:
        """Ask each generation so many times."""
        if repeats < 1:
            what = f"expected 1 or more, got {repeats}"
            raise ConfigError(what, where=f"{self.name}: repeats", hint="give a positive number")
        self.config.repeats = repeats

    @property
    def _scores_itself(self) -> bool:
        """Whether the task's own code gives the values of its metrics."""
        overridden = type(self).process_results is not Task.process_results
        return not self._only_metric and (overridden or self.config.process_results is not None)

    def _metrics(self) -> list[Metric]:
        return [metric for scorer in self.scoring.scorers for metric in scorer.metrics]


def kind_of(output_type: str) -> type[Task]:
    """The class of tasks of an output type."""
    return _KINDS[output_type]


def _value_of(metric: Metric) -> Callable[[Sequence[Any]], float]:
    """The aggregation as a function of the values alone; it says which one it is."""

    def value(items: Sequence[Any]) -> float:
        return metric.aggregation(items, 0).value

    value.aggregation = metric.aggregation  # type: ignore[attr-defined]
    return value
