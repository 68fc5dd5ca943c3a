"""Progress: the interface through which a run reports its progress, and the choice of a display."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, runtime_checkable

from multiform.engine.displays import NotebookProgress, PlainProgress, TerminalProgress
from multiform.engine.status import RunStatus

__all__ = [
    "NotebookProgress",
    "PlainProgress",
    "Progress",
    "Silent",
    "TerminalProgress",
    "WatchingProgress",
    "chosen_progress",
    "make_progress",
]


class Progress(Protocol):
    """Receives the events of a run, to show how far it has come; pass one to `evaluate(progress=...)`.

    One that also has the method of `WatchingProgress` sees tokens, the time left and intervals as well.
    """

    def message(self, text: str) -> None:
        """A line of text for the user, such as that the model is being loaded."""

    def begin(self, requests: int, docs: int) -> None:
        """The run begins: the number of its distinct requests, and of its documents."""

    def answered(self) -> None:
        """The response to one request has arrived."""

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        """Another document of a form is scored; `running` is the mean of the metric over the `n` documents so far."""

    def end(self) -> None:
        """All responses have arrived, or the run has failed."""


@runtime_checkable
class WatchingProgress(Progress, Protocol):
    """Progress that reads the status of a run itself, from a thread or after each event."""

    def watch(self, status: RunStatus) -> None:
        """The run begins; `status` holds its current progress until `end`."""


class Silent:
    """Shows nothing."""

    def message(self, text: str) -> None: ...

    def begin(self, requests: int, docs: int) -> None: ...

    def answered(self) -> None: ...

    def scored(self, form: str, metric: str, running: float, n: int) -> None: ...

    def end(self) -> None: ...


@contextmanager
def make_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """The display for a stream: a progress bar on a terminal, plain lines elsewhere."""
    output = stream or sys.stderr
    display = TerminalProgress(output) if output.isatty() else PlainProgress(output)
    try:
        yield display
    finally:
        display.end()


@contextmanager
def chosen_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """The display that `evaluate(progress=...)` selects.

    The given one; with True the default one, with False none; with None one in terminals and notebooks only.
    """
    if progress is not None and not isinstance(progress, bool):
        yield progress
    elif progress is not False and _in_notebook():
        yield NotebookProgress()
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        with make_progress() as display:
            yield display
    else:
        yield Silent()


def _in_notebook() -> bool:
    """Whether the code runs in a notebook, whose cells show what is displayed; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
