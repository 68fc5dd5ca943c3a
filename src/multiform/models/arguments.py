"""Checks numbers and yes-or-no among a model's arguments, before anything is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from multiform.errors import UsageError, shorten

_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true"),
    int: ("a whole number", "8"),
    float: ("a number", "0.5"),
}


def check_arguments(kind: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first argument that the constructors of a class take in another type."""
    hints: dict[str, Any] = {}
    for cls in reversed(getattr(kind, "__mro__", ())):
        if cls is not object and (constructor := vars(cls).get("__init__")):
            with contextlib.suppress(NameError, TypeError):  # names that only a type checker imports
                hints |= get_type_hints(constructor)
    check_types(hints, arguments)


def check_types(hints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first value that is neither null nor of its type; text takes anything.

    >>> check_types({"max_length": int | None}, {"max_length": "long"})
    Traceback (most recent call last):
    multiform.errors.UsageError: 'max_length' must be a whole number, not 'long'; give e.g. max_length=8
    """
    for name, value in values.items():
        kinds = [kind for kind in get_args(hints.get(name)) or (hints.get(name),) if kind is not type(None)]
        if value is None or any(kind not in _WORDS or _is_a(value, kind) for kind in kinds):
            continue
        words = " or ".join(_WORDS[kind][0] for kind in kinds)
        hint = f"give e.g. {name}={_WORDS[kinds[0]][1]}"
        raise UsageError(f"'{name}' must be {words}, not {shorten(value)}", hint=hint)


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool) or value in (0, 1)
    return isinstance(value, (int, kind)) and not isinstance(value, bool)
