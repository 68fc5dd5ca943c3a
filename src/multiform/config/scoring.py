"""What a task file says about metrics, filters and scorers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import NotRequired, Required, TypedDict  # pydantic needs these before 3.12


class MetricConfig(TypedDict, total=False):
    """One metric; keys beyond these are arguments of the metric too.

    Example::

        metric_list:
          - metric: exact_match
            aggregation: mean
            higher_is_better: true
            ignore_case: true
    """

    metric: Required[str | Callable[..., Any]]
    aggregation: str | Callable[..., Any] | None
    reduction: str | Callable[..., Any] | None
    higher_is_better: bool | None
    kwargs: dict[str, Any] | None


class FilterStep(TypedDict, total=False):
    """One step of a filter pipeline; keys beyond these are arguments of the filter too."""

    function: Required[str | Callable[..., Any]]
    kwargs: dict[str, Any]


class FilterPipeline(TypedDict):
    """A named sequence of filters over the model's outputs, with its own metrics if it has any."""

    name: str
    filter: list[FilterStep]
    metric_list: NotRequired[list[MetricConfig]]


class ScorerConfig(TypedDict, total=False):
    """A registered scorer and the arguments of its constructor."""

    type: Required[str]
    kwargs: dict[str, Any]
