"""The text of a run's status, fitted to the width of the terminal. Names may be shortened, numbers never are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from multiform.engine.status import RunningScore, RunStatus
from multiform.terminal import visible

#: The minimum width of a form's name, and the maximum width of a metric's.
_SHORTEST_NAME = 8
_LONGEST_METRIC = 16
_MILLION = 1_000_000


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> duration(5), duration(80), duration(3725)
    ('0:05', '1:20', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
    return f"{duration(status.elapsed)} · {words}"


def count_words(status: RunStatus) -> list[str]:
    """Requests (or evaluations), tokens and speed."""
    words = [f"{status.completed:,} {status.of} {status.requests:,} {status.unit}"]
    elapsed = max(status.elapsed, 1e-3)
    if status.tokens is None:
        return [*words, f"{status.completed / elapsed:,.1f} {status.unit}/s"]
    done, total = status.tokens
    return [*words, f"{count(done)} of {count(total)} tokens", f"{count(done / elapsed)} tokens/s"]


def packed(words: Iterable[str], width: int, separator: str = " · ") -> Iterator[str]:
    """Join words into lines no longer than `width`, unless a word is longer itself.

    >>> list(packed(["one", "two", "three"], 12))
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
    metrics = [shortened(visible(score.metric), _LONGEST_METRIC) for score in scores]
    metric_width = max(map(len, metrics), default=0)
    numbers = [
        f"{metric.ljust(metric_width)}  {_value(score)}  {score.estimate.n:,}/{score.documents:,}"
        for metric, score in zip(metrics, scores, strict=True)
    ]
    room = max(_SHORTEST_NAME, width - max(map(len, numbers), default=0) - 2)
    names = [shortened(visible(score.form), room) for score in scores]
    name_width = max(map(len, names), default=0)
    return [f"{name.ljust(name_width)}  {words}" for name, words in zip(names, numbers, strict=True)]


def _value(score: RunningScore) -> str:
    estimate = score.estimate
    value = f"{estimate.value:.4f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({estimate.low:.4f} to {estimate.high:.4f})"


def shortened(name: str, width: int) -> str:
    """A name without its middle, where it is longer than the width.

    >>> shortened("a_task_with_a_long_name@mcqa", 16)
    'a_task_…ame@mcqa'
    """
    if len(name) <= width:
        return name
    tail = width // 2
    return f"{name[: width - tail - 1]}…{name[-tail:]}"
