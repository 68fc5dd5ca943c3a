"""Paths: where Multiform keeps files of its own, and what is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def cache_root() -> Path:
    """The folder of what can be made again: ``$MULTIFORM_CACHE``, or below the user's cache folder."""
    if own := os.environ.get("MULTIFORM_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "multiform"


def is_dir(path: Path) -> bool:
    """Whether there is a folder; a name that no file can have, such as one that is too long, is none."""
    return _holds(path.is_dir)


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have is none."""
    return _holds(path.is_file)


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except (OSError, ValueError):
        return False
