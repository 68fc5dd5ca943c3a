"""What patterns and templates of task files may cost: they might never end, or fill the memory.

`within` stops what runs in this process, and `survives` tries it in a child process, which the system itself can end.

A limit of time stops the loops and the recursion of a template, in the main thread. What runs in one call of Python
cannot be stopped, and may fill the memory: it is charged, before it runs, the most that it could cost by the sizes of
what it works on. A rendering within the allowance is harmless. The charge is an upper bound that never needs to be
exact: a rendering that exceeds the allowance is tried in a child process, and refused only if that does not survive.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from types import FrameType
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext

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


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """A block that is stopped with a TimeLimitError once it has used about `seconds` of CPU time.

    Time that the process waits does not count. It works in the main thread of systems that have interval timers, where
    it stops regular expressions, too; elsewhere nothing is limited. Inside another limit, that one holds.

    >>> with within(1.0):
    ...     sum(range(10))
    45
    """
    if _watch.seconds is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _watch.start(seconds)
    try:
        yield
    finally:
        _watch.seconds = None


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
    result = b""
    try:
        with contextlib.suppress(ChildProcessError):  # where nobody wants to hear of children
            os.waitpid(child, 0)
        with contextlib.suppress(BlockingIOError):
            result = os.read(reading, 1)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
    if result == b"m":
        return f"it takes more than {_MAX_MEMORY >> 20} MB"
    return None if result == b"k" else f"it takes more than {MAX_SECONDS:g} s"


def _try_and_exit(work: Callable[[], object], writing: int, state: object) -> None:
    """What the child does: it writes ``k`` if the work ends, ``m`` if memory runs out, and nothing if killed."""
    result = b""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        random.setstate(state)  # type: ignore[arg-type]  # a new process gets another state
        _limit_memory()
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        signal.alarm(_MAX_WAITING)
        result = b"k"
        work()
    except MemoryError:
        result = b"m"
    except BaseException:  # noqa: BLE001 - the caller gets it, too
        pass
    finally:
        with contextlib.suppress(BaseException):
            os.write(writing, result)
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
        #: The limit in force, and when the first tick came upon it.
        self.seconds: float | None = None
        self._started: float | None = None
        self._ticking = False
        self._used = False

    def start(self, seconds: float) -> None:
        self.seconds, self._started, self._used = seconds, None, True
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
        if self.seconds is None:
            if not self._used:
                self.stop()
            self._used = False
        elif self._started is None:
            self._started = time.thread_time()
        elif time.thread_time() - self._started + _TICK > self.seconds:
            raise TimeLimitError(f"it took more than {self.seconds:g} s")


_watch = _Watch()
atexit.register(_watch.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.__init__)  # type: ignore[misc]  # timers stay with the parent


#: The units of one rendering: a character that is copied, or a comparison. They take less than a second and 400 MB.
_ALLOWANCE = 4_000_000
#: The units of a call or a round of a loop, and of an item of a list or mapping.
STEP = 32
#: The most binary digits of a number; Python writes none of more than 4,300 decimal digits.
_MAX_BITS = 14_000

#: Methods and filters of several operands whose cost is the sum of their sizes; that of all others may be the product.
_LINEAR = frozenset((
    "answer_key_to_index", "attr", "choice_list", "count", "d", "default", "dict", "endswith", "find", "first", "get",
    "gold_index", "gold_label", "gold_text", "groupby", "index", "index_among", "items", "last", "lead", "list", "map",
    "namespace", "partition", "reject", "rejectattr", "removeprefix", "removesuffix", "select", "selectattr", "sort",
    "split", "startswith", "string", "unique",
))  # fmt: skip
_SMALL = frozenset((bool, float, type(None)))
_COLLECTIONS: Any = (list, tuple, set, frozenset, type({}.keys()), type({}.values()), type({}.items()))
_SINGLE = frozenset((str, int, *_SMALL))
_NUMBERS = (int, float, Decimal)
_DIGITS = re.compile(r"\d+")
_NESTED_FIELD = re.compile(r"\{[^{}]*\{")


class TooMuchError(SecurityError):
    """A template asks for more than a prompt can need."""


class AllowanceError(TooMuchError):
    """A rendering has spent its allowance."""


class _Meter:
    """The units that are left for a rendering."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _ALLOWANCE


#: The meter of the rendering that is going on; without one, nothing is counted.
_meter: ContextVar[_Meter | None] = ContextVar("meter", default=None)


@contextlib.contextmanager
def metering() -> Iterator[_Meter]:
    """A block whose operations are charged, with a limit of time."""
    meter = _Meter()
    before = _meter.set(meter)
    try:
        with within(MAX_SECONDS):
            yield meter
    finally:
        _meter.reset(before)


def spend(units: int) -> None:
    """Take units from the allowance of the rendering that is going on."""
    meter = _meter.get()
    if meter is not None:
        meter.left -= units
        if meter.left < 0:
            raise AllowanceError("it takes too many steps")


def size_of(value: Any) -> int:
    """The size of a value: characters, the number itself, or all that a collection holds; it stops at the allowance.

    >>> with metering():
    ...     size_of("abc"), size_of(7), size_of(["abc", "d"])
    (3, 7, 68)
    """
    value_type = type(value)
    if value_type is str:
        length: int = len(value)
        return length
    if value_type is int:
        return int(min(abs(value), _ALLOWANCE + 1))
    if value_type in _SMALL or _meter.get() is None:
        return 1
    total, waiting = 0, [value]
    while waiting and total <= _ALLOWANCE:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, int):
            total += min(abs(item), _ALLOWANCE + 1)
        elif isinstance(item, Decimal):
            total += STEP + abs(item.adjusted())
        elif isinstance(item, _COLLECTIONS):
            total += STEP * len(item)
            waiting += item if total <= _ALLOWANCE else ()
        elif isinstance(item, Context):  # of the template, which a filter may get
            total += 1
        elif isinstance(item, Mapping):
            total += STEP * len(item)
            waiting += [*item.keys(), *item.values()] if total <= _ALLOWANCE else ()
        elif isinstance(item, Sequence) or hasattr(type(item), "shape"):  # a range, an array
            total += STEP * int(getattr(item, "size", 0) or len(item))
        else:
            total += 1
    return total


def charge(name: str, values: Sequence[Any]) -> None:
    """Charge an operation on values: the product of the two largest sizes, or the sum if that is known to do."""
    sizes = sorted(map(size_of, values), reverse=True)
    spend(STEP + (sum(sizes) if name in _LINEAR else math.prod(max(1, size) for size in sizes[:2])))


def charge_call(
    name: str, values: Sequence[Any], named: Mapping[str, Any], owner: Any = None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Charge a call of a method or filter, and give its arguments, with lists in place of iterators."""
    if any(map(_is_iterator, (*values, *named.values()))):
        values = [list(value) if _is_iterator(value) else value for value in values]
        named = {key: list(value) if _is_iterator(value) else value for key, value in named.items()}
    operands = [owner, *values, *named.values()]
    charge(name, operands)
    if name in ("format", "format_map"):
        charge_format(next((value for value in operands if isinstance(value, str)), ""), operands)
    return values, named


def charge_format(text: str | bytes, values: Any) -> None:
    """Charge writing values into a format string: each of its fields may be any of the values, or as wide as it says.

    >>> charge_format("%80s", ("x",))
    """
    pattern = text.decode("latin-1") if isinstance(text, bytes) else text
    if _NESTED_FIELD.search(pattern):
        raise AllowanceError("a value says how wide a field is")
    widest = max((int(number[:12]) for number in _DIGITS.findall(pattern)), default=0)
    spend(len(pattern) * (widest + size_of(values)))


def charge_operator(operator: str, left: Any, right: Any) -> None:
    """Charge an operator. Numbers are small, as `check_number` sees to it, and so is what is computed of them."""
    if operator == "%" and isinstance(left, str | bytes):
        charge_format(left, right)
    elif operator == "**" or not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
        charge("list" if operator == "+" else operator, (left, right))


def check_number(value: Any) -> Any:
    """The value, unless it is a number that Python refuses to write."""
    if type(value) is int and value.bit_length() > _MAX_BITS:
        raise TooMuchError(f"it computes a number of {value.bit_length():,} binary digits")
    return value


def _is_iterator(value: Any) -> bool:
    return type(value) not in _SINGLE and hasattr(type(value), "__next__") and not isinstance(value, LoopContext)
