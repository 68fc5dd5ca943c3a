"""Configurations as plain data, for results files and for hashing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from multiform.formats import FormatConfig


def plain(value: Any, keep_callable: bool = False) -> Any:
    """Convert dataclasses, tuples and functions to values that JSON and YAML have; functions become their names.

    With `keep_callable`, functions and formats stay as they are.
    """
    if isinstance(value, FormatConfig):  # a format that is not registered cannot be written down by name
        return value if keep_callable else {"type": value.format_name, **value.to_dict()}
    if is_dataclass(value) and not isinstance(value, type) and not callable(value):
        inner = {f.name: getattr(value, f.name) for f in fields(value) if not f.name.startswith("_")}
        return {key: plain(item, keep_callable) for key, item in inner.items() if item is not None}
    if isinstance(value, str):  # subclasses become plain strings
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item, keep_callable) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, keep_callable) for item in value]
    if callable(value) and not keep_callable:
        return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else str(value)
    return value
