"""lm-eval 0.4.13 on the rows of the mirror: the judge of what the numbers should be."""

from __future__ import annotations

from parity.theirs import load_tasks, reading_from, requests

__all__ = ["load_tasks", "reading_from", "requests"]
