"""Expressions of mathematics in LaTeX, compared by sympy with a limit of time."""

from __future__ import annotations

import importlib.util
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from multiform.errors import UsageError

#: What sympy needs to read LaTeX.
REASON = "sympy reads LaTeX with the package antlr4-python3-runtime 4.11, and both need to be installed"


def reads_latex() -> bool:
    """Whether LaTeX can be read on this machine."""
    return all(importlib.util.find_spec(name) is not None for name in ("sympy", "antlr4"))


def parse(text: str) -> Any:
    """The expression that a text in LaTeX is."""
    if not reads_latex():
        raise UsageError(REASON, hint="pip install sympy 'antlr4-python3-runtime==4.11'")
    from sympy.parsing.latex import parse_latex  # type: ignore[import-untyped]

    return parse_latex(text)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError after so many seconds, where that is possible: in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"it took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def equal_expressions(first: str, second: str, *, seconds: int) -> bool:
    """Whether the difference of two expressions is simplified to 0; what cannot be read is equal to nothing."""
    if not reads_latex():
        raise UsageError(REASON, hint="pip install sympy 'antlr4-python3-runtime==4.11'")
    import sympy  # type: ignore[import-untyped]

    try:
        with limited(seconds):
            return bool(sympy.simplify(parse(first) - parse(second)) == 0)
    except Exception:  # noqa: BLE001 - what a model wrote makes a parser raise anything
        return False
