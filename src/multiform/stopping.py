"""Stopping a run: after the first Ctrl-C or SIGTERM nothing more is asked, and what is in flight is finished."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_requested = threading.Event()
_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def stop_requested() -> bool:
    """Whether the run is to end: models then begin nothing new, and yield the responses to what is in flight."""
    return _requested.is_set()


def request_stop() -> None:
    """Have the run that is going on end, as the first Ctrl-C does."""
    _requested.set()


class StopSignal:
    """The signal that asked a run to stop; `number` is None until one came."""

    number: int | None = None


@contextlib.contextmanager
def stoppable() -> Iterator[StopSignal]:
    """A block that `request_stop`, Ctrl-C or SIGTERM asks to end; a second signal ends it at once.

    Signals are left alone outside the main thread, and where the program handles them itself.
    """
    came = StopSignal()
    defaults: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    main = threading.current_thread() is threading.main_thread()
    handled = [number for number in _SIGNALS if main and signal.getsignal(number) is defaults[number]]

    def first(number: int, frame: FrameType | None) -> None:
        came.number = number
        for each in handled:
            signal.signal(each, defaults[each])
        _requested.set()
        text = f"\n{_SIGNALS[signal.Signals(number)]}: finishing what is in flight; once more stops at once\n"
        # Not by print, which may be what the signal came upon.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.write(sys.stderr.fileno(), text.encode())

    for number in handled:
        signal.signal(number, first)
    try:
        yield came
    finally:
        for number in handled:
            signal.signal(number, defaults[number])
        _requested.clear()
