"""Time limits for regular expressions and templates from task files, which might never end."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from types import FrameType, TracebackType

#: The most seconds that a pattern or template of a task computes for one document.
MAX_SECONDS = 1.0
#: How often the clock is looked at while there are limits, in seconds of computation.
_TICK = 0.1


class TimeLimitError(BaseException):
    """What ran was stopped, as it took longer than it may. No ``except Exception`` on the way takes it for its own."""


class within:  # noqa: N801  (it reads as a verb: with within(seconds))
    """A block that is stopped with a TimeLimitError once it has used about `seconds` of CPU time.

    Time that the process waits does not count. It works in the main thread of systems that have interval timers, where
    it stops regular expressions, too; elsewhere nothing is limited. Inside another limit, that one holds.

    >>> with within(1.0):
    ...     sum(range(10))
    45
    """

    __slots__ = ("seconds", "started")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started: float | None = None

    def __enter__(self) -> None:
        if _watch.limit is None and threading.get_ident() == threading.main_thread().ident:
            _watch.start(self)

    def __exit__(self, _: object, __: BaseException | None, ___: TracebackType | None) -> None:
        if _watch.limit is self:
            _watch.limit = None


class _Watch:
    """Looks at the limit in force at every tick of a timer, which stops ticking where none has been for a while.

    Thousands of limits begin and end between two ticks, so that each of them costs next to nothing.
    """

    def __init__(self) -> None:
        self.limit: within | None = None
        self._ticking = False
        self._used = False

    def start(self, limit: within) -> None:
        self.limit, self._used = limit, True
        if not self._ticking and self._listens():
            self._ticking = True
            signal.setitimer(signal.ITIMER_VIRTUAL, _TICK, _TICK)

    def stop(self) -> None:
        """Stop the timer: at its exit, Python gives signals back to the system, which ends the process at a tick."""
        if self._ticking:
            self._ticking = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _listens(self) -> bool:
        """Whether the timer's signal comes here; where somebody else waits for it, it is left to them."""
        if not hasattr(signal, "setitimer"):
            return False
        if signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL:
            signal.signal(signal.SIGVTALRM, self._tick)
        return signal.getsignal(signal.SIGVTALRM) == self._tick

    def _tick(self, _: int, __: FrameType | None) -> None:
        limit = self.limit
        if limit is None:
            if not self._used:
                self.stop()
            self._used = False
        elif limit.started is None:
            limit.started = time.thread_time()
        elif time.thread_time() - limit.started + _TICK > limit.seconds:
            raise TimeLimitError(f"it took more than {limit.seconds:g} s")


_watch = _Watch()
atexit.register(_watch.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.__init__)  # type: ignore[misc]  # timers stay with the parent
