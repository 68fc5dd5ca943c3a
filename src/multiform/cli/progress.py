"""Progress of a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from multiform.engine.progress import Progress

#: Seconds between two plain lines.
_PAUSE = 5.0


@contextmanager
def make_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """The kind of progress that suits the stream."""
    out = stream or sys.stderr
    shown = TerminalProgress(out) if out.isatty() else PlainProgress(out)
    try:
        yield shown
    finally:
        shown.end()


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
        self.scores[form] = f"{form} {metric} {running:.3f} (n={n})"

    def message(self, text: str) -> None:
        print(text, file=self.out, flush=True)

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
