"""The configuration of a group and of its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from multiform.compat.lm_eval.config.source_code import source_code


@dataclass
class AggMetricConfig:
    """One score of a group: a metric of its tasks, and how it is aggregated.

    >>> AggMetricConfig("acc", filter_list="none").filter_list
    ['none']
    """

    metric: str
    #: The filters whose scores are aggregated, each by itself; all that there are where it is None.
    filter_list: Any = None
    aggregation: str | Callable[..., float] = "mean"
    weight_by_size: bool = True

    def __post_init__(self) -> None:
        if self.aggregation != "mean" and not callable(self.aggregation):
            message = f"'mean' is the only pre-defined aggregation: give it or a function, not {self.aggregation!r}"
            raise ValueError(message)
        if isinstance(self.filter_list, str):
            self.filter_list = [self.filter_list]


@dataclass
class GroupConfig:
    """A group as its file has it; a single task or score becomes a list of one."""

    group: str
    group_alias: str | None = None
    task: Any = None
    aggregate_metric_list: Any = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.task, str):
            self.task = [self.task]
        scores = self.aggregate_metric_list
        if scores is not None:
            listed = [scores] if isinstance(scores, Mapping | AggMetricConfig) else scores
            self.aggregate_metric_list = [
                AggMetricConfig(**entry) if isinstance(entry, Mapping) else entry for entry in listed
            ]

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """The configuration as plain data; functions as their source code unless they are kept."""
        return {key: self.serialize_function(value, keep_callable) if callable(value) else value
                for key, value in asdict(self).items()}  # fmt: skip

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """A function as it is, or its source code."""
        return value if keep_callable else source_code(value)
