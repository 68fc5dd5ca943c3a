"""Names in paths, and hashes."""

from __future__ import annotations

import hashlib
import re

#: Bytes of a name in a path; with a date and an ending it stays below the 255 that file systems allow.
_LONGEST_NAME = 180


def sanitized(name: str) -> str:
    """A name that is safe in a path, of at most 180 bytes; ``@`` stays.

    >>> sanitized("org/model:1"), sanitized("arc_easy@mcq::gpqa"), sanitized("..")
    ('org__model__1', 'arc_easy@mcq__gpqa', '__')
    """
    safe = re.sub(r"[\x00-\x1f\x7f\s]", "_", re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name))
    safe = safe.encode("utf-8", "backslashreplace").decode("utf-8").replace("\\", "_")
    if not safe.strip("."):
        return "_" * len(safe)
    if len(safe.encode()) <= _LONGEST_NAME:
        return safe
    return safe.encode()[: _LONGEST_NAME - 9].decode("utf-8", "ignore") + "_" + sha256(name)[:8]


def sha256(text: str) -> str:
    """The hash of a text, as lm-eval takes it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
