"""A short hash that is the same for the same settings, in this run and in every other."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def short_hash(value: Any) -> str:
    """Eight hex digits of a value's canonical JSON; functions count by their qualified name.

    >>> short_hash({"a": 1, "b": [2]}) == short_hash({"b": (2,), "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_stable)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _stable(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)
