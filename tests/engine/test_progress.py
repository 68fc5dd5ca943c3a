"""Progress in Python: shown where somebody looks."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multiform import evaluate
from multiform.engine.progress import PlainProgress, Silent, TerminalProgress, chosen_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert "loading model 'dummy'" in terminal.getvalue()
    with chosen_progress(None) as shown:
        assert isinstance(shown, TerminalProgress)


def test_a_pipe_shows_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert pipe.getvalue() == ""
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=True)
    assert "asking 8 requests for 2 documents" in pipe.getvalue()
    with chosen_progress(True) as shown:
        assert isinstance(shown, PlainProgress)


def test_a_terminal_shows_nothing_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with chosen_progress(False) as shown:
        assert isinstance(shown, Silent)


def test_a_notebook_shows_a_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Line:
        def update(self, text: Any) -> None:
            lines.append(repr(text))

    def display(text: Any, display_id: bool) -> Line:
        lines.append(repr(text))
        return Line()

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    displays.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2)
    assert lines[0] == "loading model 'dummy'"
    assert lines[-1].startswith("8/8 requests")
