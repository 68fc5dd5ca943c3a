"""The configurations of tasks and groups, and the task file that a task is being built from."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from multiform.tasks import TaskConfig as OurConfig
from multiform.tasks.config import task_keys
from multiform.tasks.keys import plain


class TaskConfig(OurConfig):
    """A task's configuration.

    >>> config = TaskConfig(task="sums")
    >>> config["output_type"], "num_fewshot" in config
    ('generate_until', True)
    """

    #: Told about a change: the task that has this configuration.
    _on_change: Callable[[OurConfig], None] | None

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __setattr__(self, key: str, value: Any) -> None:
        """Change a key, as lm-eval's scripts do; the task that has this configuration is compiled anew."""
        object.__setattr__(self, key, value)
        if key in task_keys():
            object.__setattr__(self, "stated", self.stated.with_keys(**{key: value}))
            on_change = self.__dict__.get("_on_change")
            if on_change is not None:
                on_change(self.changed())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in fields(self) if field.init and not field.name.startswith("_")]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a field, or the default where there is no such field."""
        return getattr(self, key, default)

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """A function as it is, or its source code."""
        return value if keep_callable else source_code(value)


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


def source_code(value: Any) -> str:
    """The source of a function, or its name where there is none to read."""
    try:
        return inspect.getsource(value)
    except (TypeError, OSError):
        return str(value)


def serialize_config(config: Any, keep_callable: bool = False) -> dict[str, Any]:
    """A configuration as a dict without its empty fields; functions by name unless they are kept.

    >>> serialize_config({"metric": "acc", "aggregation": None})
    {'metric': 'acc'}
    """
    to_dict = getattr(config, "to_dict", None)
    values = to_dict(keep_callable=keep_callable) if callable(to_dict) else plain(config, keep_callable)
    return {key: value for key, value in values.items() if value is not None}


#: What to do where a task's own code fails before there is a document.
OWN_CODE = "it runs the task's own code: install what that imports, and allow what it downloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The task file that a task is being built from, if there is one, and the dataset mirror."""

    config: OurConfig | None = None
    mirror: Path | None = None


_CURRENT: ContextVar[BuildContext | None] = ContextVar("build_context", default=None)


def build_context() -> BuildContext:
    """The task file and mirror in use; outside of a task file, the mirror of the environment."""
    mirror = os.environ.get("MULTIFORM_DATASET_MIRROR")
    return _CURRENT.get() or BuildContext(mirror=Path(mirror) if mirror else None)


@contextmanager
def build_from(config: OurConfig, mirror: Path | None) -> Iterator[None]:
    """Build tasks from this file until the block ends."""
    token = _CURRENT.set(BuildContext(config=config, mirror=mirror))
    try:
        yield
    finally:
        _CURRENT.reset(token)
