"""Configurations as plain data."""

from __future__ import annotations

from typing import Any

from multiform.config.serialize import plain

__all__ = ["serialize_config"]


def serialize_config(config: Any, keep_callable: bool = False) -> dict[str, Any]:
    """A configuration as a dict without its empty fields; functions by name unless they are kept.

    >>> serialize_config({"metric": "acc", "aggregation": None})
    {'metric': 'acc'}
    """
    to_dict = getattr(config, "to_dict", None)
    values = to_dict(keep_callable=keep_callable) if callable(to_dict) else plain(config, keep_callable)
    return {key: value for key, value in values.items() if value is not None}
