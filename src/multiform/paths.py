"""Where Multiform keeps files of its own."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder of what can be made again: ``$MULTIFORM_CACHE``, or below the user's cache folder."""
    if own := os.environ.get("MULTIFORM_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "multiform"
