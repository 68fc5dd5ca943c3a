"""Displays of a run's progress, in a terminal, a notebook or plain lines, and what tells them of each batch."""

from __future__ import annotations

import logging
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, TextIO

from multiform.errors import quantity
from multiform.forms import Form, ScoredSample
from multiform.models import Model
from multiform.run.pending import Batch
from multiform.run.progress import (
    Progress,
    RunningScore,
    RunStatus,
    WatchingProgress,
    count_words,
    pack,
    score_lines,
    time_words,
    workload_words,
)
from multiform.run.spool import SampleBlock, ScoredSamples, load_block
from multiform.terminal import duration, visible

logger = logging.getLogger("multiform")

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
#: Seconds between two computations of the running scores that displays show, at least.
_SCORES_PAUSE = 0.5


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
        self._ticker: threading.Thread | None = None
        self._has_ended = threading.Event()
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
        self.message(f"running {quantity(requests, 'request')} for {quantity(docs, 'document')}")

    def watch(self, status: RunStatus) -> None:
        self.status = status

    def start_ticker(self, call: Callable[[], None], seconds: float) -> None:
        """Call a function periodically in a thread until the run ends, unless that is done already."""
        if self._ticker is None:
            self._has_ended = has_ended = threading.Event()

            def call_periodically() -> None:
                while not has_ended.wait(seconds):
                    call()

            self._ticker = threading.Thread(target=call_periodically, daemon=True, name="multiform-progress")
            self._ticker.start()

    def end(self) -> None:
        if self._ticker is not None:
            self._has_ended.set()
            self._ticker.join()
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
        bar = max(0, width - len(times))
        done = int(status.share * bar)
        lines = ["━" * done + "─" * (bar - done) + times, *pack(count_words(status), width)]
        room = max(1, self.console.height - len(lines) - 2)
        scores = list(status.scores)
        lines += score_lines(scores[-room:], width)
        if len(scores) > room:
            lines.append(f"and {len(scores) - room:,} more forms")
        return lines


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
def chosen_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """The display that `evaluate(progress=...)` selects.

    The given one; with True one on standard error, a bar in a terminal and plain lines elsewhere; with False none; with
    None one in terminals and notebooks only.
    """
    ipython = sys.modules.get("IPython")
    if progress is not None and not isinstance(progress, bool):
        yield progress
    elif progress is not False and hasattr(ipython and ipython.get_ipython(), "kernel"):  # a terminal has none
        yield NotebookProgress()
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        display = (TerminalProgress if sys.stderr.isatty() else PlainProgress)(sys.stderr)
        try:
            yield display
        finally:
            display.end()
    else:
        yield Silent()


class ProgressReporter:
    """Tells a display what is done in a run. One that watches gets the plan, tokens and scores so far as well."""

    def __init__(
        self,
        progress: Progress,
        model: Model,
        forms: Mapping[str, Form],
        documents: Mapping[str, int],
        scored: ScoredSamples,
    ) -> None:
        #: What displays show, once the model runs.
        self.status: RunStatus | None = None
        self._progress, self._model, self._forms, self._scored = progress, model, forms, scored
        self._watching = progress if isinstance(progress, WatchingProgress) else None
        self._documents, self._total, self._rendered = documents, sum(documents.values()), 0
        #: The sum of the first metric of each form so far, and of how many documents.
        self._sums = dict.fromkeys(documents, (0.0, 0))
        self._has_said_cached = self._has_begun = self._is_in_rounds = False
        self._scores_due = 0.0

    def begin_rounds(self, evaluations: int) -> None:
        """Show that a run begins of at most this number of evaluations of a document under a form, in rounds."""
        self._progress.message(f"evaluating in rounds, at most {evaluations:,} evaluations of a document under a form")
        self._has_begun = self._is_in_rounds = True
        self.status = RunStatus("evaluations")
        self.status.add(evaluations, evaluations)
        if self._watching is not None:
            self._watching.watch(self.status)

    def end(self) -> None:
        """Show that nothing follows, where something was begun."""
        if self._has_begun:
            self._progress.end()

    def report(self, batch: Batch, store: Path | None) -> None:
        """Show what was done; cached responses come from the store."""
        self._rendered += batch.rendered
        if batch.cached and store is not None and not self._has_said_cached:
            self._has_said_cached = True
            since = "" if batch.oldest is None else f", the oldest from {date.fromtimestamp(batch.oldest)}"
            first = "" if self._rendered == self._total else "the first "
            number = f"{len(batch.cached)} of {first}{len(batch.cached) + len(batch.asked)}"
            self._progress.message(f"{number} responses are cached in {store}{since}")
        if batch.asked and not self._is_in_rounds:
            self._plan(batch)
        if self.status is not None:
            documents = batch.documents.total() + len(batch.failed)
            self.status.count(*(documents, documents) if self._is_in_rounds else (batch.responses, batch.size_done))
        for form, samples in batch.scored.items():
            self._report_mean(form, samples)
        for _ in range(batch.responses):
            self._progress.on_response()
        if time.monotonic() >= self._scores_due:
            self.update_scores()

    def _report_mean(self, form: str, samples: Sequence[ScoredSample] | SampleBlock) -> None:
        """Show the running mean of a form's first metric."""
        scores = load_block(samples.scores) if isinstance(samples, SampleBlock) else samples
        of_scorer = [each.values for each in scores if each.scorer == scores[0].scorer]
        metric = next(iter(of_scorer[0]), "") if of_scorer else ""
        values = [values.get(metric) for values in of_scorer]
        numbers = [float(value) for value in values if isinstance(value, int | float)]  # others are parts of a ratio
        total, n = self._sums[form]
        self._sums[form] = total, n = total + sum(numbers), n + len(numbers)
        if numbers:
            self._progress.on_score(form, metric, total / n, n)

    def _plan(self, batch: Batch) -> None:
        """Show the requests that the model is about to run; a display that watches gets what they take."""
        workload = None
        if self._watching is not None and batch.missing:
            if not self._has_begun:
                self._progress.message("planning")
            try:
                workload = self._model.workload(batch.missing)
            except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
                logger.debug("the model, which may be broken, cannot say what the requests take: %s", error)
        share = self._rendered / self._total
        if not self._has_begun:
            self._has_begun = True
            if workload is not None:
                self._progress.message(f"plan: {workload_words(workload)}")
            if share < 1:
                message = "documents are rendered as the run goes on, and the number of requests is an estimate"
                self._progress.message(message)
            self._progress.begin(round(len(batch.asked) / share), self._total)
        if self._watching is None:
            return
        status = self.status or RunStatus(usage=self._model.usage)
        status.add(len(batch.asked), batch.size_asked, workload=workload, share=share)
        if self.status is None:
            self.status = status
            self.update_scores()
            self._watching.watch(status)

    def update_scores(self) -> None:
        """Compute the scores of all forms so far, for displays; less often where it takes long."""
        if self.status is None or self._watching is None or self._is_in_rounds:
            return
        started = time.monotonic()
        scores = []
        for form, samples in self._scored.so_far():
            if (first := self._forms[form].scorer.first_estimate(samples)) is not None:
                metric, estimate = first
                scores.append(
                    RunningScore(form=form, metric=metric, estimate=estimate, documents=self._documents[form])
                )
        self.status.scores = scores
        spent = time.monotonic() - started
        self._scores_due = started + max(_SCORES_PAUSE, 20 * spent)
