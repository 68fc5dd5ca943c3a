"""Build the scorers of a task configuration: its filters, its metrics, and what its format overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, MultiformError, running
from multiform.scoring.aggregations import CORPUS
from multiform.scoring.filters import Pipeline, build_pipeline
from multiform.scoring.metrics import Metric, build_metric, metrics
from multiform.scoring.metrics.base import pair
from multiform.scoring.scorers import Scorer, scorers
from multiform.tasks.config import TaskConfig

#: Metrics of a task that names none.
DEFAULT_METRICS: Mapping[str, Sequence[str]] = {
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}


@dataclass(frozen=True, slots=True)
class Scoring:
    """The scorers of a form, and the task's metrics that its format overrides."""

    scorers: tuple[Scorer, ...]
    overridden: tuple[str, ...] = ()
    #: Warnings about the metrics.
    notes: tuple[ConfigError, ...] = ()


def build_scoring(config: TaskConfig, *, own_results: bool = False, metric: str | None = None) -> Scoring:
    """Build one scorer for each filter pipeline, of the class that the task or its format names.

    With `own_results`, the values come from the task's `process_results`, and its metrics only aggregate them.
    With `metric`, that metric is the only one, and the scorer class of the task or its format is not used.
    """
    builder = _Builder(config, own_results)
    if metric is not None:
        only = builder.check_fit(build_metric({"metric": metric}), "metric_list")
        return Scoring(builder.scorers(Scorer, {}, [only], own_metrics=False))
    task_metrics = builder.metrics(config.metric_list, "metric_list")
    builder.note_repetitions(task_metrics)
    if config.format is None and not own_results:
        for index, each in enumerate(task_metrics):
            builder.check_fit(each, "metric_list", index)
    # No choice is picked if only the gold one is scored.
    alone = config.format is not None and config.format.scored == "gold" and config.mapping.choices is not None
    fitting = [each for each in task_metrics if own_results or config.output_type in each.output_types]
    fitting = [each for each in fitting if own_results or not (alone and each.name == "acc")]
    overridden = tuple(f"metric {metric.name}" for metric in task_metrics if metric not in fitting)
    scorer_class = _scorer_class(config)
    chosen = fitting if own_results and not task_metrics else builder.choose_metrics(scorer_class, fitting)
    kwargs = config.scorer.get("kwargs") if isinstance(config.scorer, dict) else None
    return Scoring(builder.scorers(scorer_class, kwargs or {}, chosen), overridden, tuple(builder.notes))


class _Builder:
    """Builds the metrics and scorers of a configuration; errors name the place of what they are about."""

    def __init__(self, config: TaskConfig, own_results: bool) -> None:
        self.config = config
        self.own_results = own_results
        self.notes: list[ConfigError] = []

    def scorers(
        self, scorer_class: type[Scorer], kwargs: Mapping[str, Any], chosen: Sequence[Metric], own_metrics: bool = True
    ) -> tuple[Scorer, ...]:
        """A scorer for each pipeline, with the chosen metrics, or with its own ones if there are any and they count."""
        config, built = self.config, dict[str, Scorer]()
        default: Any = {"name": "none", "filter": scorer_class.default_filter_cfg}
        for index, entry in enumerate(config.filter_list or [default]):
            path = ("filter_list", index) if config.filter_list else ("scorer",)
            name, place = entry["name"], config.where(*path)
            if name in built:
                hint = "results are keyed by the name: rename one"
                raise ConfigError(f"two pipelines are called '{name}'", where=place, hint=hint)
            try:
                pipeline = build_pipeline(name, entry["filter"]) if entry["filter"] else Pipeline(name, ())
            except MultiformError as error:
                raise error.relocate(place) from error
            listed = self.metrics(entry.get("metric_list", ()), *path, "metric_list") if own_metrics else []
            what = f"scorer {scorer_class.__name__}"
            with running(what, raises=ConfigError, where=config.where("scorer"), hint="check its kwargs"):
                built[name] = scorer_class(pipeline=pipeline, metrics=listed or chosen, **kwargs)
        return tuple(built.values())

    def metrics(self, specs: Sequence[Mapping[str, Any]], *path: str | int) -> list[Metric]:
        """The metrics of a list in the configuration."""
        return [self._metric(spec, self.config.where(*path, index)) for index, spec in enumerate(specs)]

    def _metric(self, spec: Mapping[str, Any], place: str | None) -> Metric:
        """A metric; arguments that do not apply to its output type are noted."""
        output_type, ignored = self.config.output_type, list[ConfigError]()
        paired = not self.own_results and _is_paired(self.config, spec)
        # As in lm-eval, arguments of a metric apply to completions, not to choices and pairs.
        spare = paired or output_type != "generate_until"
        if spare:
            spec = {key: value for key, value in spec.items() if key != "hf_evaluate"}
        try:
            metric = build_metric(spec, computed=not self.own_results, notes=ignored if spare else None)
        except MultiformError as error:
            raise error.relocate(place) from error
        self.notes += [note.relocate(place, what=f"{note.what}, and it is ignored") for note in ignored]
        return replace(metric, fn=pair, output_types=frozenset([output_type])) if paired else metric

    def note_repetitions(self, listed: Sequence[Metric]) -> None:
        """Note each metric that another one of its name and other arguments replaces in the results."""
        last = {metric.name: metric for metric in listed}
        for index, metric in enumerate(listed):
            if (metric.kwargs, metric.aggregation) != (last[metric.name].kwargs, last[metric.name].aggregation):
                what = f"metric '{metric.name}' is listed twice with different arguments, and the last one counts"
                hint = "keep one of them, or give each a filter pipeline of its own with a metric_list"
                self.notes.append(ConfigError(what, where=self.config.where("metric_list", index), hint=hint))

    def choose_metrics(self, scorer_class: type[Scorer], task_metrics: Sequence[Metric]) -> list[Metric]:
        """The metrics of the format, or the defaults, with the task's added; without a format, the task's alone."""
        config, format = self.config, self.config.format
        if task_metrics and format is None:
            return list(task_metrics)
        if format is not None and format.metric_list:
            path = config.format_key("metric_list")
            listed = enumerate(self.metrics(format.metric_list, *path))
            defaults = [self.check_fit(metric, *path, index) for index, metric in listed]
        else:
            of_gold = format is not None and config.output_type == "loglikelihood"
            usual = ("bits_per_byte",) if of_gold else DEFAULT_METRICS[config.output_type]
            specs = scorer_class.default_metric_cfg or usual
            defaults = [build_metric({"metric": spec} if isinstance(spec, str) else spec) for spec in specs]
        return list({metric.name: metric for metric in (*defaults, *task_metrics)}.values())

    def check_fit(self, metric: Metric, *path: str | int) -> Metric:
        """The metric, if it fits the output type."""
        config = self.config
        if config.output_type in metric.output_types:
            return metric
        message = f"metric {metric.name} does not fit output_type {config.output_type}"
        ranks = config.doc_to_choice is not None and "multiple_choice" in metric.output_types
        if ranks and not config.output_type_stated:
            hint = "add output_type: multiple_choice, or a format such as formats: mcqa"
            raise ConfigError(f"{message}, which is the default", where=config.where(*path), hint=hint)
        known = [name for name in metrics if config.output_type in metrics.get(name).output_types]
        raise ConfigError(message, where=config.where(*path), hint=f"fitting metrics: {', '.join(known)}")


def _scorer_class(config: TaskConfig) -> type[Scorer]:
    if config.scorer is None:
        return Scorer
    assert isinstance(config.scorer, dict)
    name = str(config.scorer.get("type"))
    path = config.format_key("scorer") if config.format and config.format.scorer is not None else ("scorer",)
    place = config.where(*path)
    scorer_class: Any = scorers.get(name, where=place)
    if not isinstance(scorer_class, type) or not issubclass(scorer_class, Scorer):
        message = f"scorer '{name}' is {name_of(scorer_class)}, which is not a subclass of Scorer"
        raise ConfigError(message, where=place, hint="register a class: class Mine(Scorer)")
    if getattr(scorer_class, "runs_code", False) and not config.unsafe_code:
        message = f"scorer '{name}' runs what the model writes, and the task does not say so"
        raise ConfigError(message, where=place, hint="add unsafe_code: true")
    for method, arguments in (("score", ["outcome"]), ("score_instances", ["outcomes", "docs"])):
        what = f"scorer '{name}': {scorer_class.__name__}.{method} cannot be called"
        hint = f"write it as {method}(self, {', '.join(arguments)})"
        check_call(getattr(scorer_class, method), None, *arguments, what=what, where=place, hint=hint)
    return scorer_class


def _is_paired(config: TaskConfig, spec: Mapping[str, Any]) -> bool:
    """Whether a metric of choices is listed for completions with an aggregation function of the task.

    Such a function gets pairs of reference and completion.
    """
    name = spec["metric"]
    if config.output_type != "generate_until" or config.format is not None or name not in metrics:
        return False
    by_text = "generate_until" in metrics.get(name).output_types and name not in CORPUS
    return callable(spec.get("aggregation")) and not by_text


def check_reductions(config: TaskConfig, scorers: Sequence[Scorer], *, generates: bool) -> list[ConfigError]:
    """Raise for a reduction that needs more responses than any filter pipeline leaves, such as ``pass@2`` of one.

    If some pipelines leave enough, the others do not reduce. The returned notes say which, and which reduce only one of
    several responses. A document has several if the form `generates`.
    """
    notes: list[ConfigError] = []
    repeats = config.repeats if generates else 1
    for metric in dict.fromkeys(metric for scorer in scorers for metric in scorer.metrics):
        reduction = metric.reduction
        if reduction is None:
            continue
        if repeats < reduction.needs:
            one = f"{reduction.needs} responses, and a task of {config.output_type} has one"
            few = f"{reduction.needs} repeats, there are {repeats}"
            hint = f"set repeats: {reduction.needs} or more" if generates else "remove the reduction"
            message = f"{reduction.name} needs {few if generates else one}"
            raise ConfigError(message, where=config.where("metric_list"), hint=hint)
        left = {scorer: scorer.pipeline.most or repeats for scorer in scorers if metric in scorer.metrics}
        problems = []
        for scorer, number in left.items():
            if number < reduction.needs:
                what = f"{reduction.name} of metric '{metric.name}' needs {reduction.needs} responses, and the filters"
                hint = "remove take_first or majority_vote from them, or give these filters metrics of their own"
                message = f"{what} of '{scorer.name}' leave {number}"
                problems.append(ConfigError(message, where=config.where("filter_list"), hint=hint))
            elif number == 1 < repeats and reduction.name != "take_first":
                what = f"reduction {reduction.name} of metric '{metric.name}' gets one response of {repeats}"
                hint = "remove take_first or majority_vote from them to have all responses reduced"
                message = f"{what}, as the filters of '{scorer.name}' leave one"
                notes.append(ConfigError(message, where=config.where("filter_list"), hint=hint))
        if len(problems) == len(left):
            raise problems[0]
        notes += problems
    return notes
