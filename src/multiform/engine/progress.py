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
    """Told about every step of a run; the command line shows it.

    One that also has the method of `WatchingProgress` sees tokens, the time left and intervals, too.
    """

    def message(self, text: str) -> None:
        """Something took a moment, or is about to."""

    def begin(self, requests: int, docs: int) -> None:
        """So many distinct requests are about to be asked."""

    def answered(self) -> None:
        """One request has its answer."""

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        """One more document of a form is scored; its running score is this over n."""

    def end(self) -> None:
        """All is answered, or the run has failed."""


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
