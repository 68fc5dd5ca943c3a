"""Multiform evaluates language models: one dataset, every prompt form.

A name is imported when it is first used, so that `multiform --help` reads no more than it needs.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

#: The module of each public name: ``__init__.pyi`` imports them for type checkers, and is the only list of them.
_MODULES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+)", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), re.MULTILINE
    )
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """A name, imported when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'multiform' has no attribute '{name}'")
    if name == "compat":
        return import_module("multiform.compat")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
