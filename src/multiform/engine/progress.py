"""Progress of a run: what it tells while it goes on, and which display suits where it is shown."""

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
        """The run begins to ask the model: so many distinct requests about so many documents."""

    def answered(self) -> None:
        """The response to one request has arrived."""

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        """Another document of a form is scored; `running` is the mean of the metric over the `n` documents so far."""

    def end(self) -> None:
        """All responses have arrived, or the run has failed."""


@runtime_checkable
class WatchingProgress(Progress, Protocol):
    """Progress that looks at the status of a run by itself, from a thread or whenever it is told of a step."""

    def watch(self, status: RunStatus) -> None:
        """The asking begins; `status` says how far it has come, until `end`."""


class Silent:
    """Shows nothing."""

    def message(self, text: str) -> None: ...

    def begin(self, requests: int, docs: int) -> None: ...

    def answered(self) -> None: ...

    def scored(self, form: str, metric: str, running: float, n: int) -> None: ...

    def end(self) -> None: ...


@contextmanager
def make_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """The kind of progress that suits the stream: a bar on a terminal, plain lines elsewhere."""
    out = stream or sys.stderr
    shown = TerminalProgress(out) if out.isatty() else PlainProgress(out)
    try:
        yield shown
    finally:
        shown.end()


@contextmanager
def chosen_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """What a script asks for: its own display, always one (True), never (False), or where somebody looks (None)."""
    if progress is not None and not isinstance(progress, bool):
        yield progress
    elif progress is not False and _in_notebook():
        yield NotebookProgress()
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        with make_progress() as shown:
            yield shown
    else:
        yield Silent()


def _in_notebook() -> bool:
    """Whether the code runs in a notebook, whose cells show what is displayed; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
