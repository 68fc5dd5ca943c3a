"""Import hooks for task files, and packages whose names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Sequence[str], homes: Sequence[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: it takes each of `names` from the first of the modules `homes` that has it."""

    def look_up(name: str) -> Any:
        if name in names:
            for home in map(import_module, homes):
                if hasattr(home, name):
                    setattr(sys.modules[package], name, getattr(home, name))
                    return getattr(home, name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return look_up
