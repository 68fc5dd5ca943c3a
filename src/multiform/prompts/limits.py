"""What a rendering may cost.

A limit of time stops loops and recursion, in the main thread. What runs in one call of Python cannot be stopped, and
may fill the memory: it is charged, before it runs, the most that it could cost by the sizes of what it works on. A
rendering within the allowance is harmless. The charge is an upper bound that never needs to be exact: a rendering that
exceeds the allowance is tried in a child process with limits of time and memory, and refused only if the child does
not survive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from types import TracebackType
from typing import Any, TypeVar

from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext

from multiform.deadline import MAX_SECONDS, survives, within

T = TypeVar("T")

#: The units of one rendering: a character that is copied, or a comparison. They take less than a second and 400 MB.
_ALLOWANCE = 4_000_000
#: The units of a call or a round of a loop, and of an item of a list or mapping.
STEP = 32
#: The most characters of a rendered text.
_MAX_TEXT = 10_000_000
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


class TooMuchError(SecurityError):
    """A template asks for more than a prompt can need."""


class _AllowanceError(TooMuchError):
    """A rendering has spent its allowance."""


class _Meter:
    """The units that are left for a rendering."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _ALLOWANCE


#: The meter of the rendering that is going on; without one, nothing is counted.
_meter: ContextVar[_Meter | None] = ContextVar("meter", default=None)


class metering:  # noqa: N801  (it reads as a verb: with metering())
    """A block whose operations are charged, with a limit of time."""

    __slots__ = ("_before", "_limit")

    def __enter__(self) -> _Meter:
        meter = _Meter()
        self._before = _meter.set(meter)
        self._limit = within(MAX_SECONDS)
        self._limit.__enter__()
        return meter

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._limit.__exit__(kind, error, traceback)
        _meter.reset(self._before)


def render_bounded(rendering: Callable[[], T]) -> T:
    """The result of a rendering, which costs a bounded amount of time and memory; a TooMuchError otherwise."""
    try:
        with metering() as meter:
            result = rendering()
        if meter.left >= 0:
            return _check_length(result)
    except _AllowanceError:
        pass
    problem = survives(rendering)
    if problem is not None:
        raise TooMuchError(problem)
    return _check_length(rendering())  # what the child did, which is known to be harmless


def _check_length(result: T) -> T:
    if isinstance(result, str) and len(result) > _MAX_TEXT:
        raise TooMuchError(f"it builds a text of {len(result):,} characters, and {_MAX_TEXT:,} are allowed")
    return result


def spend(units: int) -> None:
    """Take units from the allowance of the rendering that is going on."""
    meter = _meter.get()
    if meter is not None:
        meter.left -= units
        if meter.left < 0:
            raise _AllowanceError("it takes too many steps")


def size_of(value: Any) -> int:
    """The size of a value: characters, the number itself, or all that a collection holds; it stops at the allowance.

    >>> with metering():
    ...     size_of("abc"), size_of(7), size_of(["abc", "d"])
    (3, 7, 68)
    """
    kind = type(value)
    if kind is str:
        length: int = len(value)
        return length
    if kind is int:
        return int(min(abs(value), _ALLOWANCE + 1))
    if kind in _SMALL or _meter.get() is None:
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
    largest = second = 1
    total = 0
    for value in values:
        size = size_of(value)
        total += size
        if size > largest:
            largest, second = size, largest
        elif size > second:
            second = size
    spend(STEP + (total if name in _LINEAR else largest * second))


def charge_call(
    name: str, values: Sequence[Any], named: Mapping[str, Any], owner: Any = None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Charge a call of a method or filter, and give its arguments, with lists in place of iterators."""
    if any(map(_is_iterator, (*values, *named.values()))):
        values = [list(value) if _is_iterator(value) else value for value in values]
        named = {key: list(value) if _is_iterator(value) else value for key, value in named.items()}
    operands = [owner, *values, *named.values()]
    charge(name, operands)
    if name == "format":
        charge_format(next((value for value in operands if isinstance(value, str)), ""), operands)
    return values, named


def charge_format(text: str | bytes, values: Any) -> None:
    """Charge writing values into a format string: each of its fields may be any of the values, or as wide as it says.

    >>> charge_format("%80s", ("x",))
    """
    spend(len(text) * (largest_number(text) + size_of(values)))


def largest_number(text: str | bytes) -> int:
    """The largest number that a text spells out.

    >>> largest_number("{:>80.3f}")
    80
    """
    digits = _DIGITS.findall(text.decode("latin-1") if isinstance(text, bytes) else text)
    return max((int(number[:12]) for number in digits), default=0)


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


def bounded_text(chunks: Iterable[str]) -> str:
    """The parts as one text, each charged before it is put into it."""
    texts: list[str] = []
    for part in chunks:
        spend(len(part))
        texts.append(part)
    return "".join(texts)


def _is_iterator(value: Any) -> bool:
    return type(value) not in _SINGLE and hasattr(type(value), "__next__") and not isinstance(value, LoopContext)
