"""Fields that are read and checked but do not work yet: using one is an error, not a surprise."""

from __future__ import annotations

from multiform.config import TaskConfig
from multiform.errors import ConfigError

_LATER: dict[str, str] = {}


def refuse_unsupported(config: TaskConfig) -> None:
    """Raise a ConfigError for a field whose behaviour is not there yet."""
    for name, why in _LATER.items():
        if getattr(config, name):
            what = f"'{name}' is not supported yet: {why}"
            raise ConfigError(what, where=config.where(name), hint="remove it, or run this task with lm-eval")
