"""The configuration of a task, whose fields may also be read and set as those of a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multiform.config import FewshotConfig
from multiform.config import TaskConfig as OurConfig

__all__ = ["FewshotConfig", "TaskConfig"]


class TaskConfig(OurConfig):
    """A task's configuration.

    >>> TaskConfig(task="sums")["output_type"]
    'generate_until'
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

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a field, or the default where there is no such field."""
        return getattr(self, key, default)
