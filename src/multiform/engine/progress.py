"""Progress of a run: what it tells while it goes on, and how that is shown in a terminal, a notebook or a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from multiform.terminal import visible

#: Seconds between two plain lines, and between two states of a notebook's line.
_PAUSE = 5.0
_NOTEBOOK_PAUSE = 0.5


class Progress(Protocol):
    """Told about every step of a run; the command line shows it."""

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


class _Counted:
    """Counts requests and keeps the running score of each form."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.total = self.done = 0
        self.started = time.monotonic()
        self.scores: dict[str, str] = {}

    def begin(self, requests: int, docs: int) -> None:
        self.total, self.done, self.started = requests, 0, time.monotonic()
        self.message(f"asking {requests} requests for {docs} documents")

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        self.scores[form] = visible(f"{form} {metric} {running:.3f} (n={n})")

    def message(self, text: str) -> None:
        print(visible(text), file=self.out, flush=True)

    def summary(self) -> str:
        """The newest running scores, as many as fit into a line."""
        return "; ".join(list(self.scores.values())[-3:])


class PlainProgress(_Counted):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._last = time.monotonic()

    def answered(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self._last < _PAUSE and self.done < self.total:
            return
        self._last = now
        spent = now - self.started
        left = spent / self.done * (self.total - self.done)
        self.message(f"{self.done}/{self.total} requests, {spent:.0f} s, about {left:.0f} s left; {self.summary()}")

    def end(self) -> None:
        return None


class TerminalProgress(_Counted):
    """A bar with the time left and the running scores."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._bar: Any = None
        self._job: Any = None

    def begin(self, requests: int, docs: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.total, self.done = requests, 0
        columns = [
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        ]
        self._bar = Bar(*columns, console=Console(file=self.out), transient=True)
        self._job = self._bar.add_task("", total=requests)
        self._bar.start()

    def answered(self) -> None:
        if self._bar is not None:
            self._bar.update(self._job, advance=1, description=self.summary())

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class NotebookProgress(_Counted):
    """A line below the cell that changes as the run goes on, and stays with what was last said."""

    def __init__(self) -> None:
        from IPython.display import display

        super().__init__(sys.stderr)
        self._display = display
        self._line: Any = None
        self._last = 0.0

    def message(self, text: str) -> None:
        if self._line is None:
            self._line = self._display(_Text(text), display_id=True)
        else:
            self._line.update(_Text(text))

    def answered(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self._last >= _NOTEBOOK_PAUSE or self.done == self.total:
            self._last = now
            self.message(f"{self.done}/{self.total} requests, {now - self.started:.0f} s; {self.summary()}")

    def end(self) -> None:
        return None


class _Text:
    """What a notebook shows as it is, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
