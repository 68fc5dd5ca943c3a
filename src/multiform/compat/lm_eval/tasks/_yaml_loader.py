"""Task files as plain dicts, with what they include."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiform.compat.kinds import also
from multiform.config.functions import FunctionRef, resolve_functions
from multiform.config.yaml import IncludeCycleError, read_own, read_yaml

__all__ = ["load_yaml"]


def load_yaml(path: str | Path, *, resolve_func: bool = True, recursive: bool = True) -> dict[str, Any]:
    """What a task file says, its own keys above those of the files that it includes.

    `!function` is the function itself, or its place and name as text with ``resolve_func=False``. Without `recursive`
    nothing is included.
    """
    file = Path(path).expanduser()
    with also(ValueError):
        try:
            data = (read_yaml if recursive else read_own)(file).data
        except IncludeCycleError as error:  # lm-eval's message begins with a capital
            raise error.moved(error.where, what=f"I{error.what[1:]}") from error
        resolved = resolve_functions(data) if resolve_func else _named(data)
    assert isinstance(resolved, dict)
    return resolved


def _named(value: Any) -> Any:
    """The same data with the place and name of each function in place of it."""
    if isinstance(value, FunctionRef):
        return str(value.folder / value.name)
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value
