"""The types of `metric_list`, `filter_list` and `scorer` in a task file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import NotRequired, Required, TypedDict  # pydantic needs these before 3.12


class MetricConfig(TypedDict, total=False):
    """An entry of `metric_list`; other keys than these are passed to the metric as arguments.

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
    """One step of a filter pipeline; other keys than these are passed to the filter as arguments."""

    function: Required[str | Callable[..., Any]]
    kwargs: dict[str, Any]


class FilterPipeline(TypedDict):
    """A named sequence of filters that are applied to the model's responses, optionally with metrics of its own."""

    name: str
    filter: list[FilterStep]
    metric_list: NotRequired[list[MetricConfig]]


class ScorerConfig(TypedDict, total=False):
    """A registered scorer and the arguments of its constructor."""

    type: Required[str]
    kwargs: dict[str, Any]
