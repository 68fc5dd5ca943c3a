"""The configuration of a task, whose fields may also be read and set as those of a dict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from multiform.compat.lm_eval.config.source_code import source_code
from multiform.config import FewshotConfig, FilterPipeline, FilterStep, MetricConfig, ScorerConfig
from multiform.config import TaskConfig as OurConfig

__all__ = ["FewshotConfig", "FilterPipeline", "FilterStep", "MetricConfig", "ScorerConfig", "TaskConfig"]


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
        if key in self._given:
            self._given[key] = value
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
