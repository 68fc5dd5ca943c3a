"""From a configuration to its scorers: which filters, which metrics, and what was set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import ConfigError, MultiformError, nearest
from multiform.scoring.filters import Pipeline, build_pipeline
from multiform.scoring.metrics import Metric, build_metric, metrics
from multiform.scoring.scorers import Scorer, scorers

#: Metrics of a task or format that names none.
DEFAULT_METRICS: Mapping[str, Sequence[str]] = {
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
    "loglikelihood": ("bits_per_byte",),
    "loglikelihood_rolling": ("bits_per_byte",),
}


@dataclass(frozen=True, slots=True)
class Scoring:
    """The scorers of a form, and the task's metrics that do not fit its output type."""

    scorers: tuple[Scorer, ...]
    set_aside: tuple[str, ...] = ()


def build_scoring(config: TaskConfig) -> Scoring:
    """One scorer for each filter pipeline, or the scorer that the task or its format names."""
    own = [_placed(config, "metric_list", i, metric) for i, metric in enumerate(config.metric_list)]
    fitting = [metric for metric in own if config.output_type in metric.output_types]
    aside = tuple(f"metric {metric.name}" for metric in own if metric not in fitting)
    if aside and config.format is None:
        raise ConfigError(
            f"{aside[0]} does not fit output_type {config.output_type}",
            where=config.where("metric_list"),
            hint=nearest(
                "", [m for m in metrics if config.output_type in metrics.get(m).output_types], listed="fitting"
            ),
        )
    kind = _scorer_class(config)
    chosen = _chosen(config, kind, fitting)
    if config.filter_list and config.scorer is None:
        return Scoring(tuple(_of_pipeline(config, i, chosen) for i in range(len(config.filter_list))), aside)
    pipeline = Pipeline("none", ())
    return Scoring((_construct(config, kind, pipeline, chosen),), aside)


def _chosen(config: TaskConfig, kind: type[Scorer], own: Sequence[Metric]) -> list[Metric]:
    """A format's metrics come first and the task's own are added; without a format the task's are all."""
    if own and config.format is None:
        return list(own)
    given = config.format.metric_list if config.format is not None else None
    specs = given or [{"metric": name} for name in kind.default_metrics or DEFAULT_METRICS[config.output_type]]
    named = {metric.name: metric for metric in (build_metric(spec) for spec in specs)}
    return list({**named, **{metric.name: metric for metric in own}}.values())


def _of_pipeline(config: TaskConfig, index: int, chosen: Sequence[Metric]) -> Scorer:
    entry = config.filter_list[index]
    try:
        pipeline = build_pipeline(entry["name"], entry["filter"])
        own = [build_metric(spec) for spec in entry.get("metric_list", ())]
    except MultiformError as error:
        raise ConfigError(error.what, where=config.where("filter_list", index), hint=error.hint) from error
    return Scorer(pipeline=pipeline, metrics=own or chosen)


def _scorer_class(config: TaskConfig) -> type[Scorer]:
    if config.scorer is None:
        return Scorer
    assert isinstance(config.scorer, dict)
    name = config.scorer.get("type")
    if name not in scorers:
        hint = nearest(str(name), scorers, listed="scorers")
        raise ConfigError(f"unknown scorer '{name}'", where=config.where("scorer"), hint=hint)
    return scorers.get(str(name))


def _construct(config: TaskConfig, kind: type[Scorer], pipeline: Pipeline, chosen: Sequence[Metric]) -> Scorer:
    kwargs: dict[str, Any] = dict(config.scorer.get("kwargs") or {}) if isinstance(config.scorer, dict) else {}
    try:
        return kind(pipeline=pipeline, metrics=chosen, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{kind.__name__}: {error}", where=config.where("scorer"), hint="check its kwargs") from error


def _placed(config: TaskConfig, key: str, index: int, spec: Any) -> Metric:
    if callable(spec.get("metric")):
        raise ConfigError(
            "metrics that are functions are not supported yet",
            where=config.where(key, index),
            hint="use a registered metric: multiform ls metrics",
        )
    try:
        return build_metric(spec)
    except MultiformError as error:
        raise ConfigError(error.what, where=config.where(key, index), hint=error.hint) from error
