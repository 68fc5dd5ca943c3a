"""The task file and the dataset mirror of a task under construction, which its constructor does not get."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from multiform.config import TaskConfig

#: What to do where a task's own code fails before there is a document.
OWN_CODE = "it runs the task's own code: install what that imports, and allow what it downloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """The task file that a task is being built from, if there is one, and the dataset mirror."""

    config: TaskConfig | None = None
    mirror: Path | None = None


_CURRENT: ContextVar[Building | None] = ContextVar("building", default=None)


def current() -> Building:
    """The task file and mirror in use; outside of a task file, the mirror of the environment."""
    mirror = os.environ.get("MULTIFORM_DATASET_MIRROR")
    return _CURRENT.get() or Building(mirror=Path(mirror) if mirror else None)


@contextmanager
def building(config: TaskConfig, mirror: Path | None) -> Iterator[None]:
    """Build tasks from this file until the block ends."""
    token = _CURRENT.set(Building(config=config, mirror=mirror))
    try:
        yield
    finally:
        _CURRENT.reset(token)
