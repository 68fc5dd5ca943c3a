"""Limits for regular expressions and templates from task files, which might never end or fill the memory.

`within` stops what runs in this process; `survives` tries it in a child process, which the system itself can end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from types import FrameType, TracebackType

#: The most seconds that a pattern or template of a task computes for one document.
MAX_SECONDS = 1.0
#: The most memory, in bytes, that it needs for one document.
_MAX_MEMORY = 256 * 2**20
#: A child that waits for something is given up after so many seconds.
_MAX_WAITING = 10
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


def survives(work: Callable[[], object]) -> str | None:
    """Why `work` is too much, by trying it in a child process with limits of time and memory; None if it is not.

    An error counts as survival: it shows when the work is done. If no child can be started, any work is too much.

    >>> survives(lambda: sum(range(10)))
    >>> survives(lambda: "x" * 10**12)
    'it takes more than 256 MB'
    """
    state = random.getstate()
    try:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child needs none of their locks
            child = os.fork()
    except (AttributeError, OSError):
        return "it takes too many steps, and no process can be started to try it"
    if child == 0:
        _try_and_exit(work, writing, state)
    os.close(writing)
    os.set_blocking(reading, False)  # another process, forked meanwhile, may keep the other end open
    verdict = b""
    try:
        with contextlib.suppress(ChildProcessError):  # where nobody wants to hear of children
            os.waitpid(child, 0)
        with contextlib.suppress(BlockingIOError):
            verdict = os.read(reading, 1)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
    if verdict == b"m":
        return f"it takes more than {_MAX_MEMORY >> 20} MB"
    return None if verdict == b"k" else f"it takes more than {MAX_SECONDS:g} s"


def _try_and_exit(work: Callable[[], object], writing: int, state: object) -> None:
    """What the child does: it writes ``k`` if the work ends, ``m`` if memory runs out, and nothing if killed."""
    verdict = b""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        random.setstate(state)  # type: ignore[arg-type]  # a new process gets another state
        _limit_memory()
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        signal.alarm(_MAX_WAITING)
        verdict = b"k"
        work()
    except MemoryError:
        verdict = b"m"
    except BaseException:  # noqa: BLE001 - the caller gets it, too
        pass
    finally:
        with contextlib.suppress(BaseException):
            os.write(writing, verdict)
        os._exit(0)


def _limit_memory() -> None:
    """Limit the address space to what is in use now and what the work may need; only Linux keeps to such a limit."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = used + _MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))


class _Watch:
    """Looks at the limit in force at every tick of a timer, which stops ticking if none has been for a while.

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
        """Whether the timer's signal comes here; if somebody else waits for it, it is left to them."""
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
