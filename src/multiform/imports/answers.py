"""Where the modules are that answer the imports of other harnesses' packages.

The package's own `__init__` says where; nothing below it knows their names.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

_homes: list[tuple[str, Path]] = []


def answer_from(package: str, folder: Path) -> None:
    """Have the modules of this package, which are in this folder, answer for those of the same names elsewhere."""
    _homes.append((package, folder))


def is_answered(name: str) -> bool:
    """Whether one of our modules answers for this one."""
    place = place_of(name)
    return place is not None and (place.with_name(f"{place.name}.py").is_file() or (place / "__init__.py").is_file())


def place_of(name: str) -> Path | None:
    """The path that our module of this name has, without its ending."""
    return next((folder.joinpath(*name.split(".")) for _, folder in _homes), None)


def import_answer(name: str) -> ModuleType:
    """Our module for this one."""
    return importlib.import_module(f"{_homes[0][0]}.{name}")


def original_name(name: str) -> str:
    """The name that a module of ours answers to; others keep theirs."""
    prefixes = [f"{package}." for package, _ in _homes]
    return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)
