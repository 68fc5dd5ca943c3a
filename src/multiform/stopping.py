"""Stopping a run: after the first Ctrl-C or SIGTERM no request is started, and those in flight are finished.

And whether the process of a run is still there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from multiform.errors import RunInterrupted

_requested = threading.Event()
_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def stop_requested() -> bool:
    """Whether the run is to end: models then begin nothing new, and yield the responses to what is in flight."""
    return _requested.is_set()


def wait_for_stop(seconds: float) -> None:
    """Wait; a stop that is requested, or was before, ends it early."""
    _requested.wait(seconds)


def request_stop() -> None:
    """Have the run that is going on end, as the first Ctrl-C does."""
    _requested.set()


def is_running(process: int, host: object) -> bool:
    """Whether a process is there; those of other machines are taken to be."""
    if host != platform.node():
        return True
    try:
        os.kill(process, 0)  # signal 0 asks whether the process is there, and does nothing to it
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user, or is no number of a process
        return True
    return True


class StopSignal:
    """The signal that asked a run to stop; `number` is None until one came."""

    number: int | None = None


@contextlib.contextmanager
def stoppable() -> Iterator[StopSignal]:
    """A block that `request_stop`, Ctrl-C or SIGTERM asks to end; a second signal ends it at once.

    Signals are left alone outside the main thread, and if the program handles them itself.
    """
    stop = StopSignal()
    defaults: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = [number for number in _SIGNALS if main and before[number] in (defaults[number], _terminated)]

    def first(number: int, frame: FrameType | None) -> None:
        stop.number = number
        for signal_number in handled:
            signal.signal(signal_number, defaults[signal_number])
        _requested.set()
        text = f"\n{_SIGNALS[signal.Signals(number)]}: finishing what is in flight; once more stops at once\n"
        # Not by print, which may be what the signal came upon.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.write(sys.stderr.fileno(), text.encode())

    for number in handled:
        signal.signal(number, first)
    try:
        yield stop
    finally:
        for number in handled:
            signal.signal(number, before[number])
        _requested.clear()


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """A block that SIGTERM ends as Ctrl-C does, with a KeyboardInterrupt: files are closed, and there is a message."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    _terminated.process = os.getpid()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Terminated:
    """The handler of SIGTERM; processes that are forked from this one end without a word, as they would without it."""

    process = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise RunInterrupted("", signal=number)


_terminated = _Terminated()
