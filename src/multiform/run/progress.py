"""Progress: how far a run is, in numbers and words, and the interface of what shows it.

The run updates the `RunStatus`; displays read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from multiform.models.model import Usage
from multiform.statistics.estimates import Estimate
from multiform.terminal import align, duration, visible

#: The minimum width of a form's name, and the maximum width of a metric's.
_SHORTEST_NAME = 8
_LONGEST_METRIC = 16
_MILLION = 1_000_000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningScore:
    """The first score of a form over the documents scored so far; `documents` is the number of all."""

    form: str
    metric: str
    estimate: Estimate
    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Seconds until the last response; "at least" where a part has not begun and its speed is not known, "at most"
    where no completion is finished and all are taken to be as long as they may be."""

    seconds: float
    bound: Literal["about", "at least", "at most"] = "about"


class RunStatus:
    """The progress of the requests of a run: how many responses, tokens and documents so far.

    Progress is by tokens where the model counts them (`workload` and `usage`), which it does within a batch, too, and
    by the length of requests elsewhere. A run in rounds counts evaluations instead, of which it may need fewer in the
    end. `clock` gives seconds; they count from here, after loading and planning.
    """

    def __init__(
        self,
        unit: Literal["requests", "evaluations"] = "requests",
        *,
        usage: Callable[[], Usage | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.unit = unit
        self.completed = self.requests = 0
        self.scores: Sequence[RunningScore] = ()
        self.workload: Usage | None = None
        self._added = self._size_added = self._size_done = self._size = 0
        self._workload = Usage()
        self._usage = usage
        self._before = usage() or Usage()
        self._clock = clock
        self._started = clock()

    def add(self, requests: int, size: int, *, workload: Usage | None = None, share: float = 1.0) -> None:
        """Requests of this total length are to be run; those so far are about a `share` of all.

        The number of all requests, and what they take, is an estimate until the share is 1.
        """
        self._added += requests
        self._size_added += size
        self.requests, self._size = round(self._added / share), round(self._size_added / share)
        if workload is None:
            self.workload = None
        else:
            self._workload = self._workload + workload
            self.workload = self._workload.scale(1 / share)

    def count(self, responses: int, size: int) -> None:
        """Requests of this total length have their responses."""
        self.completed += responses
        self._size_done += size

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the run began."""
        return self._clock() - self._started

    @property
    def usage(self) -> Usage | None:
        """What the model has computed in this run; None where it does not count tokens."""
        usage = self._usage()
        return None if usage is None else usage.since(self._before)

    @property
    def tokens(self) -> tuple[int, int] | None:
        """The tokens that are computed, and those that are expected in all; None where they are not counted."""
        usage, workload = self.usage, self.workload
        if usage is None or workload is None:
            return None
        rest = round(_prefill_left(workload, usage) + _decode_left(workload, usage))
        return usage.computed_tokens, usage.computed_tokens + (rest if self.completed < self.requests else 0)

    @property
    def share(self) -> float:
        """The completed share of the work, from 0 to 1."""
        if self.completed >= self.requests:
            return 1.0
        tokens = self.tokens
        done, total = (self._size_done, self._size) if tokens is None else tokens
        return min(1.0, done / max(1, total))

    @property
    def time_left(self) -> TimeLeft | None:
        """The estimated remaining time; None while there is nothing to estimate it from."""
        if self.completed >= self.requests:
            return TimeLeft(seconds=0.0)
        usage, workload = self.usage, self.workload
        if usage is None or workload is None:
            if not self._size_done:
                return None
            seconds = self.elapsed_seconds / self._size_done * (self._size - self._size_done)
            return TimeLeft(seconds=seconds, bound="about" if self.unit == "requests" else "at most")
        return _time_left(workload, usage)


def _time_left(workload: Usage, usage: Usage) -> TimeLeft | None:
    """The remaining time by the speeds of prefill and decode so far, which are far apart."""
    prefill, decode = _prefill_left(workload, usage), _decode_left(workload, usage)
    if (prefill and not usage.prefill_seconds) or not usage.computed_tokens:
        return None
    seconds = prefill * usage.prefill_seconds / max(1, usage.prefill)
    if decode and not usage.decode_seconds:
        return TimeLeft(seconds=seconds, bound="at least")
    seconds += decode * usage.decode_seconds / max(1, usage.decode)
    return TimeLeft(seconds=seconds, bound="at most" if decode and not usage.completions else "about")


def _prefill_left(workload: Usage, usage: Usage) -> float:
    """The prompt tokens that are still to be computed; with padding there are more than were planned."""
    if usage.prefill <= workload.prefill:
        return workload.prefill - usage.prefill
    return workload.prefill * max(0.0, 1 - usage.unshared / max(1, workload.unshared))


def _decode_left(workload: Usage, usage: Usage) -> float:
    """The tokens still to decode, if the remaining completions are as long as the finished ones."""
    unfinished = workload.completions - usage.completions
    if not usage.completions:
        return max(float(unfinished), workload.decode - usage.decode)
    mean = usage.completion_tokens / usage.completions
    return max(float(unfinished), mean * workload.completions - usage.decode) if unfinished > 0 else 0.0


def count(number: float) -> str:
    """A number of tokens or requests, from ten millions on in millions.

    >>> count(1234), count(45_678_901)
    ('1,234', '45.7M')
    """
    return f"{number / _MILLION:,.1f}M" if number >= 10 * _MILLION else f"{number:,.0f}"


def time_words(status: RunStatus) -> str:
    """The elapsed time and the remaining time."""
    time_left = status.time_left
    words = "time left not known yet" if time_left is None else f"{time_left.bound} {duration(time_left.seconds)} left"
    return f"{duration(status.elapsed_seconds)} · {words}"


def count_words(status: RunStatus) -> list[str]:
    """Requests (or evaluations), tokens and speed."""
    of = "of" if status.unit == "requests" else "of at most"
    words = [f"{status.completed:,} {of} {status.requests:,} {status.unit}"]
    elapsed = max(status.elapsed_seconds, 1e-3)
    if status.tokens is None:
        return [*words, f"{status.completed / elapsed:,.1f} {status.unit}/s"]
    done, total = status.tokens
    return [*words, f"{count(done)} of {count(total)} tokens", f"{count(done / elapsed)} tokens/s"]


def workload_words(workload: Usage) -> str:
    """What requests take, in words: the tokens to compute, and those saved by prefix sharing."""
    words = f"{workload.prefill:,} prompt tokens to compute"
    if workload.unshared > workload.prefill:
        times = workload.unshared / max(1, workload.prefill)
        words += f" for {workload.unshared:,} ({times:.1f} times less, as prompts share their beginnings)"
    if workload.completions:
        words += f", and at most {workload.decode:,} tokens of {workload.completions:,} completions"
    return words


def pack(words: Iterable[str], width: int, separator: str = " · ") -> Iterator[str]:
    """Join words into lines no longer than `width`, unless a word is longer itself.

    >>> list(pack(["one", "two", "three"], 12))
    ['one · two', 'three']
    """
    line = ""
    for word in words:
        if line and len(line) + len(separator) + len(word) > width:
            yield line
            line = ""
        line = f"{line}{separator}{word}" if line else word
    if line:
        yield line


def score_lines(scores: Sequence[RunningScore], width: int) -> list[str]:
    """A line for each form: its name, the metric, the score with its interval, and the documents so far."""
    numbers = [
        [shorten_name(visible(each.metric), _LONGEST_METRIC), _value(each), f"{each.estimate.n:,}/{each.documents:,}"]
        for each in scores
    ]
    columns = list(align(numbers))
    room = max(_SHORTEST_NAME, width - max(map(len, columns), default=0) - 2)
    names = [shorten_name(visible(score.form), room) for score in scores]
    return list(align(list(zip(names, columns, strict=True))))


def _value(score: RunningScore) -> str:
    estimate = score.estimate
    interval = "" if estimate.low is None or estimate.high is None else f" ({estimate.low:.4f} to {estimate.high:.4f})"
    return f"{estimate.value:.4f}{interval}"


def shorten_name(name: str, width: int) -> str:
    """A name without its middle, where it is longer than the width.

    >>> shorten_name("a_task_with_a_long_name@mcqa", 16)
    'a_task_…ame@mcqa'
    """
    if len(name) <= width:
        return name
    tail = width // 2
    return f"{name[: width - tail - 1]}…{name[-tail:]}"
