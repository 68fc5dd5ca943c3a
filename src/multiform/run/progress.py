"""Progress: the interface through which a run reports its progress, and the choice of a display."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, runtime_checkable

from multiform.run.status import RunningScore, RunStatus, count_words, pack, score_lines, time_words
from multiform.terminal import duration, visible

#: Seconds after which plain lines look whether one is due, and between two updates of a notebook's line.
_TICK = 1.0
_NOTEBOOK_TICK = 0.5
#: Seconds between two plain lines in the first minute, and later.
_PAUSE = 5.0
_LATER_PAUSE = 20.0
#: Seconds after which a step that takes long shows its time.
_LONG = 2.0
#: Forms whose scores a plain state shows: those that changed last.
_PLAIN_FORMS = 6


class Ticker:
    """Calls a function periodically in a thread, until it is stopped; `seconds` is the interval."""

    def __init__(self, call: Callable[[], None], seconds: float) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(call, seconds), daemon=True, name="multiform-progress")
        self._thread.start()

    def _run(self, call: Callable[[], None], seconds: float) -> None:
        while not self._stopped.wait(seconds):
            call()

    def stop(self) -> None:
        """End the thread after the current call."""
        self._stopped.set()
        self._thread.join()


class Progress(Protocol):
    """Receives the events of a run, to show how far it has come; pass one to `evaluate(progress=...)`.

    One that also has the method of `WatchingProgress` sees tokens, the time left and intervals as well.
    """

    def message(self, text: str) -> None:
        """A line of text for the user, such as that the model is being loaded."""

    def begin(self, requests: int, docs: int) -> None:
        """The run begins: the number of its distinct requests, and of its documents."""

    def on_response(self) -> None:
        """The response to one request has arrived."""

    def on_score(self, form: str, metric: str, running: float, n: int) -> None:
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

    def on_response(self) -> None: ...

    def on_score(self, form: str, metric: str, running: float, n: int) -> None: ...

    def end(self) -> None: ...


class Display(Silent, ABC):
    """A display of a run, which reads its status periodically."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._ticker: Ticker | None = None
        self.status: RunStatus | None = None
        #: The current step of the run, and since when.
        self.activity: tuple[str, float] = ("", clock())

    def message(self, text: str) -> None:
        text = visible(text)
        self.activity = (text.partition("\n")[0], self.clock())
        self.print(text)

    @abstractmethod
    def print(self, text: str) -> None:
        """Show a permanent line."""

    def begin(self, requests: int, docs: int) -> None:
        self.message(f"running {requests:,} requests for {docs:,} documents")

    def watch(self, status: RunStatus) -> None:
        self.status = status

    def start_ticker(self, call: Callable[[], None], seconds: float) -> None:
        """Call a function periodically until the run ends, unless that is done already."""
        self._ticker = self._ticker or Ticker(call, seconds)

    def end(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        self.status = None


class PlainProgress(Display):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic, *, tick: float = _TICK) -> None:
        super().__init__(clock)
        self.out = out
        self._tick = tick
        self._lock = threading.Lock()
        self._started = self._last = clock()
        self._shown: dict[str, RunningScore] = {}

    def print(self, text: str) -> None:
        with self._lock:
            print(text, file=self.out, flush=True)
            self._last = self.clock()
        self.start_ticker(self.tick, self._tick)

    def watch(self, status: RunStatus) -> None:
        super().watch(status)
        self._started = self._last = self.clock()

    def tick(self) -> None:
        """Print the state, or the time of the current step, where nothing was printed for a while."""
        now = self.clock()
        pause = _PAUSE if now - self._started < 60 else _LATER_PAUSE
        if now - self._last < pause:
            return
        if self.status is not None:
            self._print_state(self.status)
        else:
            text, since = self.activity
            self.print(f"{text}: {duration(now - since)} so far")

    def end(self) -> None:
        if self.status is not None:
            self._print_state(self.status)
        super().end()

    def _print_state(self, status: RunStatus) -> None:
        """The state, and below it the scores that have changed."""
        changed = [score for score in status.scores if self._shown.get(score.form) != score][-_PLAIN_FORMS:]
        self._shown |= {score.form: score for score in changed}
        lines = [" · ".join([f"{status.share:.0%}", *count_words(status), time_words(status)])]
        lines += [f"  {line}" for line in score_lines(changed, 1000)]
        self.print("\n".join(lines))


class TerminalProgress(Display):
    """A bar with the time left, and below it tokens, speed and the score of each form so far."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        super().__init__(clock)
        self.console = Console(file=out, markup=False, emoji=False, highlight=False)
        self._live: Any = None

    def print(self, text: str) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self.console, get_renderable=self.render, transient=True, refresh_per_second=4)
            self._live.start()
        self.console.print(text, soft_wrap="\n" in text)  # prompts are shown as they are

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        super().end()

    def render(self) -> Any:
        """The current display: the state of the run, or the time of the current step."""
        from rich.text import Text

        status, width = self.status, self.console.width
        if status is not None:
            return Text("\n".join(self._lines(status, width)), overflow="fold")
        elapsed = self.clock() - self.activity[1]
        return Text(f"… {duration(elapsed)}" if elapsed >= _LONG else "")

    def _lines(self, status: RunStatus, width: int) -> list[str]:
        times = f" {status.share:4.0%}  {time_words(status)}"
        lines = [_bar(status.share, width - len(times)) + times, *pack(count_words(status), width)]
        room = max(1, self.console.height - len(lines) - 2)
        scores = list(status.scores)
        lines += score_lines(scores[-room:], width)
        if len(scores) > room:
            lines.append(f"and {len(scores) - room:,} more forms")
        return lines


def _bar(share: float, width: int) -> str:
    """A bar of `width` characters; empty where that is too narrow."""
    if width < 4:
        return ""
    done = int(share * width)
    return "━" * done + "─" * (width - done)


class NotebookProgress(Display):
    """A line below the cell that is updated during the run; the last state stays."""

    def __init__(self) -> None:
        from IPython.display import display

        super().__init__()
        self.out = sys.stderr
        self._display = display
        self._line: Any = None

    def print(self, text: str) -> None:
        if self._line is None:
            self._line = self._display(_Text(text), display_id=True)
        else:
            self._line.update(_Text(text))

    def watch(self, status: RunStatus) -> None:
        super().watch(status)
        self.start_ticker(self._show, _NOTEBOOK_TICK)

    def end(self) -> None:
        self._show()
        super().end()

    def _show(self) -> None:
        if self.status is not None:
            state = " · ".join([*count_words(self.status), time_words(self.status)])
            self.print("\n".join([state, *score_lines(self.status.scores, 80)]))


class _Text:
    """Text that a notebook shows without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


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
