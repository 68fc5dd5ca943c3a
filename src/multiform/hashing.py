"""Hashes: of settings, the same in every run, and of texts."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache, partial
from pathlib import Path
from typing import Any


def short_hash(value: Any) -> str:
    """Eight hex digits of a value's canonical JSON; functions count by their qualified name.

    >>> short_hash({"a": 1, "b": [2]}) == short_hash({"b": (2,), "a": 1})
    True
    """
    return full_hash(value)[:8]


def full_hash(value: Any) -> str:
    """All hex digits of the same hash."""
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, default=stable_name))


def sha256(*parts: str | bytes) -> str:
    """The SHA-256 hash of texts or bytes, one after the other; that of a text is lm-eval's in results files."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
    return digest.hexdigest()


@lru_cache(maxsize=4)
def source_hash(folder: Path) -> str:
    """A hash of the Python files below a folder of this package: what other code has computed may be different."""
    return sha256(*(path.read_bytes() for path in sorted(folder.rglob("*.py"))))


def stable_name(value: Any) -> str:
    """What to call a function, or another value that is no plain data, in every run.

    >>> from functools import partial
    >>> stable_name(partial(short_hash, value=1))
    'multiform.hashing.short_hash(value=1)'
    """
    if isinstance(value, partial):
        arguments = [*map(repr, value.args), *(f"{key}={item!r}" for key, item in value.keywords.items())]
        return f"{stable_name(value.func)}({', '.join(arguments)})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)
