"""Functions as text, for configurations that are printed."""

from __future__ import annotations

import inspect
from typing import Any


def source_code(value: Any) -> str:
    """The source of a function, or its name where there is none to read."""
    try:
        return inspect.getsource(value)
    except (TypeError, OSError):
        return str(value)
