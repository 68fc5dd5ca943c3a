"""The configuration of a task, whose fields may also be read and set as those of a dict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from multiform.config import FewshotConfig
from multiform.config import TaskConfig as OurConfig

__all__ = ["FewshotConfig", "TaskConfig"]


@dataclass(kw_only=True)
class TaskConfig(OurConfig):
    """A task's configuration.

    >>> TaskConfig(task="sums")["output_type"]
    'generate_until'
    """

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a field, or the default where there is no such field."""
        return getattr(self, key, default)
