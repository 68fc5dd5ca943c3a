"""The configurations of tasks and groups, the task files that they are built from, and the names in these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from multiform.errors import ModelError, MultiformError
from multiform.paths import mirror_path
from multiform.tasks.config import TaskConfig as OurConfig
from multiform.tasks.keys import default_keys, plain


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
        if key in default_keys():
            object.__setattr__(self, "stated", self.stated.with_keys(**{key: value}))
            on_change = self.__dict__.get("_on_change")
            if on_change is not None:
                on_change(self.replace())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in fields(self) if field.init and not field.name.startswith("_")]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a field, or the default where there is no such field."""
        return getattr(self, key, default)


def serialize_config(config: Any, keep_callable: bool = False) -> dict[str, Any]:
    """A configuration as a dict without its empty fields; functions by name unless they are kept.

    >>> serialize_config({"metric": "acc", "aggregation": None})
    {'metric': 'acc'}
    """
    to_dict = getattr(config, "to_dict", None)
    values = to_dict(keep_callable=keep_callable) if callable(to_dict) else plain(config, keep_callable)
    return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The task file that a task is being built from, if there is one, and the dataset mirror."""

    config: OurConfig | None = None
    mirror: Path | None = None


_CURRENT: ContextVar[BuildContext | None] = ContextVar("build_context", default=None)


def build_context() -> BuildContext:
    """The task file and mirror in use; outside of a task file, the mirror of the environment."""
    return _CURRENT.get() or BuildContext(mirror=mirror_path(os.environ.get("MULTIFORM_DATASET_MIRROR")))


@contextmanager
def build_from(config: OurConfig, mirror: Path | None) -> Iterator[None]:
    """Build tasks from this file until the block ends."""
    token = _CURRENT.set(BuildContext(config=config, mirror=mirror))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def convert_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise input errors of a block as errors that are also of this class, for scripts that catch lm-eval's.

    >>> from multiform.errors import UsageError
    >>> try:
    ...     with convert_errors(KeyError):
    ...         raise UsageError("unknown filter 'lower'", hint="did you mean 'lowercase'?")
    ... except KeyError as error:
    ...     print(f"{error} ({isinstance(error, UsageError)})")
    unknown filter 'lower'; did you mean 'lowercase'? (True)
    """
    try:
        yield
    except MultiformError as error:
        if isinstance(error, (kind, ModelError)):
            raise
        ours = type(error)
        both = type(ours.__name__, (ours, kind), {"__module__": ours.__module__, "__doc__": ours.__doc__})
        raise error.as_kind(both) from error
