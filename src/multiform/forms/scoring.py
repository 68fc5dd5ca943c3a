"""Build the scorers of a task configuration: its filters, its metrics, and what its format overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, MultiformError, nearest, reason
from multiform.scoring.aggregations import CORPUS
from multiform.scoring.filters import Pipeline, build_pipeline
from multiform.scoring.metrics import Metric, build_metric, metrics
from multiform.scoring.metrics.base import pair
from multiform.scoring.scorers import Scorer, scorers
from multiform.tasks import TaskConfig

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
    if metric is not None:
        return _single_metric_scoring(config, metric)
    notes: list[ConfigError] = []
    task_metrics = [
        _metric(config, ("metric_list", i), spec, own_results, notes) for i, spec in enumerate(config.metric_list)
    ]
    notes += _repetition_notes(config, task_metrics)
    # No choice is picked if only the gold one is scored.
    alone = config.format is not None and config.format.scored == "gold" and config.mapping.choices is not None
    fitting = [
        metric
        for metric in task_metrics
        if own_results or (config.output_type in metric.output_types and not (alone and metric.name == "acc"))
    ]
    overridden = tuple(f"metric {metric.name}" for metric in task_metrics if metric not in fitting)
    if overridden and config.format is None:
        misfit = next(metric for metric in task_metrics if metric not in fitting)
        raise _misfit(misfit, config, ("metric_list", task_metrics.index(misfit)))
    scorer_class = _scorer_class(config)
    chosen = fitting if own_results and not task_metrics else _choose_metrics(config, scorer_class, fitting)
    if not config.filter_list:
        pipeline = _pipeline(config, "none", scorer_class.default_filter_cfg, ("scorer",))
        return Scoring((_construct(config, scorer_class, pipeline, chosen),), overridden, tuple(notes))
    built = []
    names: set[str] = set()
    for index, entry in enumerate(config.filter_list):
        path = ("filter_list", index)
        if entry["name"] in names:
            message = f"two pipelines are called '{entry['name']}'"
            raise ConfigError(message, where=config.where(*path), hint="results are keyed by the name: rename one")
        names.add(entry["name"])
        pipeline = _pipeline(config, entry["name"], entry["filter"], path)
        specs = entry.get("metric_list", ())
        pipeline_metrics = [
            _metric(config, (*path, "metric_list", i), spec, own_results, notes) for i, spec in enumerate(specs)
        ]
        built.append(_construct(config, scorer_class, pipeline, pipeline_metrics or chosen))
    return Scoring(tuple(built), overridden, tuple(notes))


def _repetition_notes(config: TaskConfig, listed: Sequence[Metric]) -> list[ConfigError]:
    """A note for each metric that another one of its name and other arguments replaces in the results."""
    last = {metric.name: metric for metric in listed}
    hint = "keep one of them, or give each a filter pipeline of its own with a metric_list"
    return [
        ConfigError(
            f"metric '{metric.name}' is listed twice with different arguments, and the last one counts",
            where=config.where("metric_list", index),
            hint=hint,
        )
        for index, metric in enumerate(listed)
        if (metric.kwargs, metric.aggregation) != (last[metric.name].kwargs, last[metric.name].aggregation)
    ]


def _single_metric_scoring(config: TaskConfig, name: str) -> Scoring:
    """A scorer with one metric for each filter pipeline."""
    metric = build_metric({"metric": name})
    if config.output_type not in metric.output_types:
        raise _misfit(metric, config, ("metric_list",))
    steps = [(pipeline["name"], pipeline["filter"]) for pipeline in config.filter_list] or [("none", [])]
    pipelines = [_pipeline(config, name, filters, ("filter_list",)) for name, filters in steps]
    return Scoring(tuple(Scorer(pipeline=pipeline, metrics=[metric]) for pipeline in pipelines))


def _choose_metrics(config: TaskConfig, scorer_class: type[Scorer], task_metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics of the format, or the defaults, with the task's added; without a format, the task's alone."""
    if task_metrics and config.format is None:
        return list(task_metrics)
    format_metrics = config.format.metric_list if config.format is not None else None
    if format_metrics:
        defaults = [_format_metric(config, index, spec) for index, spec in enumerate(format_metrics)]
    else:
        of_gold = config.format is not None and config.output_type == "loglikelihood"
        usual = ("bits_per_byte",) if of_gold else DEFAULT_METRICS[config.output_type]
        specs = scorer_class.default_metric_cfg or usual
        defaults = [build_metric({"metric": spec} if isinstance(spec, str) else spec) for spec in specs]
    named = {metric.name: metric for metric in defaults}
    return list({**named, **{metric.name: metric for metric in task_metrics}}.values())


def _format_metric(config: TaskConfig, index: int, spec: Mapping[str, Any]) -> Metric:
    path: tuple[str | int, ...] = (*config.format_key("metric_list"), index)
    metric = _metric(config, path, spec, False, [])
    if config.output_type not in metric.output_types:
        raise _misfit(metric, config, path)
    return metric


def _misfit(metric: Metric, config: TaskConfig, path: tuple[str | int, ...]) -> ConfigError:
    known = [name for name in metrics if config.output_type in metrics.get(name).output_types]
    message = f"metric {metric.name} does not fit output_type {config.output_type}"
    if not config.output_type_stated and config.doc_to_choice is not None and "multiple_choice" in metric.output_types:
        hint = "add output_type: multiple_choice, or a format such as formats: mcqa"
        return ConfigError(f"{message}, which is the default", where=config.where(*path), hint=hint)
    return ConfigError(message, where=config.where(*path), hint=f"fitting metrics: {', '.join(known)}")


def _pipeline(
    config: TaskConfig, name: str, steps: Sequence[Mapping[str, Any]], path: tuple[str | int, ...]
) -> Pipeline:
    try:
        return build_pipeline(name, steps) if steps else Pipeline(name, ())
    except MultiformError as error:
        raise error.relocate(config.where(*path)) from error


def _scorer_class(config: TaskConfig) -> type[Scorer]:
    if config.scorer is None:
        return Scorer
    assert isinstance(config.scorer, dict)
    name = config.scorer.get("type")
    path = config.format_key("scorer") if config.format and config.format.scorer is not None else ("scorer",)
    if name not in scorers:
        hint = nearest(str(name), scorers, listed="scorers")
        raise ConfigError(f"unknown scorer '{name}'", where=config.where(*path), hint=hint)
    scorer_class: Any = scorers.get(str(name))
    if not isinstance(scorer_class, type) or not issubclass(scorer_class, Scorer):
        message = f"scorer '{name}' is {name_of(scorer_class)}, which is not a subclass of Scorer"
        raise ConfigError(message, where=config.where(*path), hint="register a class: class Mine(Scorer)")
    if getattr(scorer_class, "runs_code", False) and not config.unsafe_code:
        message = f"scorer '{name}' runs what the model writes, and the task does not say so"
        raise ConfigError(message, where=config.where(*path), hint="add unsafe_code: true")
    for method, arguments in (("score", 1), ("score_instances", 2)):
        problem = mismatch(getattr(scorer_class, method), *[None] * (1 + arguments))
        if problem is not None:
            written = "score(self, outcome)" if arguments == 1 else "score_instances(self, outcomes, docs)"
            message = f"scorer '{name}': {scorer_class.__name__}.{method} cannot be called: {problem}"
            raise ConfigError(message, where=config.where(*path), hint=f"write it as {written}")
    return scorer_class


def _construct(config: TaskConfig, scorer_class: type[Scorer], pipeline: Pipeline, chosen: Sequence[Metric]) -> Scorer:
    kwargs: dict[str, Any] = dict(config.scorer.get("kwargs") or {}) if isinstance(config.scorer, dict) else {}
    try:
        return scorer_class(pipeline=pipeline, metrics=chosen, **kwargs)
    except MultiformError:
        raise
    except (Exception, SystemExit) as error:  # TypeError for a wrong argument; a user's class may raise anything
        problem = str(error) if isinstance(error, TypeError) else reason(error)
        raise ConfigError(
            f"{scorer_class.__name__}: {problem}", where=config.where("scorer"), hint="check its kwargs"
        ) from error


def _metric(
    config: TaskConfig,
    path: tuple[str | int, ...],
    spec: Mapping[str, Any],
    own_results: bool,
    notes: list[ConfigError],
) -> Metric:
    """A metric of the task; arguments that do not apply to its output type are noted."""
    ignored: list[ConfigError] = []
    paired = not own_results and _is_paired(config, spec)
    # As in lm-eval, arguments of a metric apply to completions, not to choices and pairs.
    spare = paired or config.output_type != "generate_until"
    if spare:
        spec = {key: value for key, value in spec.items() if key != "hf_evaluate"}
    try:
        metric = build_metric(spec, computed=not own_results, notes=ignored if spare else None)
    except MultiformError as error:
        raise error.relocate(config.where(*path)) from error
    notes += [note.relocate(config.where(*path), what=f"{note.what}, and it is ignored") for note in ignored]
    return replace(metric, fn=pair, output_types=frozenset([config.output_type])) if paired else metric


def _is_paired(config: TaskConfig, spec: Mapping[str, Any]) -> bool:
    """Whether a metric of choices is listed for completions with an aggregation function of the task.

    Such a function gets pairs of reference and completion.
    """
    name = spec["metric"]
    if config.output_type != "generate_until" or config.format is not None or name not in metrics:
        return False
    by_text = "generate_until" in metrics.get(name).output_types and name not in CORPUS
    return callable(spec.get("aggregation")) and not by_text


def check_reductions(config: TaskConfig, scorers: Sequence[Scorer]) -> list[ConfigError]:
    """Raise for a reduction that needs more responses than any filter pipeline leaves, such as ``pass@2`` of one.

    If some pipelines leave enough, the others do not reduce; the returned notes say which.
    """
    notes: list[ConfigError] = []
    for metric in dict.fromkeys(metric for scorer in scorers for metric in scorer.metrics):
        users = [scorer for scorer in scorers if any(metric is used for used in scorer.metrics)]
        problems = [_problem(config, scorer, metric) for scorer in users]
        first = problems[0]
        if first is not None and None not in problems:
            raise first
        idle = [problem or _without_effect(config, user, metric) for user, problem in zip(users, problems, strict=True)]
        notes += [note for note in idle if note is not None]
    return notes


def _responses_left(config: TaskConfig, scorer: Scorer) -> int:
    """How many responses of a document reach the metrics, at most."""
    if not _is_repeated(config):
        return 1
    most = scorer.pipeline.most
    return config.repeats if most is None else min(config.repeats, most)


def _is_repeated(config: TaskConfig) -> bool:
    """Whether a document has as many responses as `repeats` says: completions, or choices after so many thoughts."""
    return config.output_type == "generate_until" or (config.format is not None and config.format.generates)


def _problem(config: TaskConfig, scorer: Scorer, metric: Metric) -> ConfigError | None:
    reduction, remaining = metric.reduction, _responses_left(config, scorer)
    if reduction is None or reduction.needs <= remaining:
        return None
    if not _is_repeated(config):
        message = f"{reduction.name} needs {reduction.needs} responses, and a task of {config.output_type} has one"
        return ConfigError(message, where=config.where("metric_list"), hint="remove the reduction")
    if config.repeats < reduction.needs:
        message = f"{reduction.name} needs {reduction.needs} repeats, there are {config.repeats}"
        return ConfigError(message, where=config.where("metric_list"), hint=f"set repeats: {reduction.needs} or more")
    message = f"{reduction.name} of metric '{metric.name}' needs {reduction.needs} responses, and the filters of "
    hint = "remove take_first or majority_vote from them, or give these filters metrics of their own"
    return ConfigError(f"{message}'{scorer.name}' leave {remaining}", where=config.where("filter_list"), hint=hint)


def _without_effect(config: TaskConfig, scorer: Scorer, metric: Metric) -> ConfigError | None:
    reduction, repeats = metric.reduction, config.repeats
    if reduction is None or reduction.name == "take_first" or not _is_repeated(config) or repeats == 1:
        return None
    if _responses_left(config, scorer) > 1:
        return None
    note = f"reduction {reduction.name} of metric '{metric.name}' gets one response of {repeats}, as the filters"
    hint = "remove take_first or majority_vote from them to have all responses reduced"
    return ConfigError(f"{note} of '{scorer.name}' leave one", where=config.where("filter_list"), hint=hint)
