"""What a template may cost: the size of the values that it builds, and the work of building them.

Every operation that can make a value grow looks at the size of its result before it computes it, or is bounded by the
sizes of its operands. The work of a rendering is counted, so that loops and recursion come to an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

#: The most characters of a text; an item of a list or mapping counts as much as 32 of them, beside what it holds.
MAX_SIZE = 10_000_000
_ITEM = 32
#: The most steps of one rendering: calls, rounds of loops, and blocks of 64 characters that are built.
MAX_STEPS = 300_000
#: The most binary digits of a whole number; Python writes none of more than 4,300 decimal digits.
MAX_BITS = 14_000

_SMALL = frozenset((bool, float, type(None)))
_COLLECTIONS = (list, tuple, set, frozenset)
_PERCENT = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?.?", re.DOTALL)
_DIGITS = re.compile(r"\d+")


class TooMuchError(SecurityError):
    """A template builds more than a prompt can need."""


class Budget:
    """The steps that are left for a rendering."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuchError(f"it takes more than {MAX_STEPS:,} steps")


#: The budget of the rendering that is going on.
budget: ContextVar[Budget] = ContextVar("budget")


def spend(steps: int) -> None:
    """Take steps from the budget; constants are computed when a template is compiled, which has a budget as well."""
    budget.get(_nothing).spend(steps)


class _Nothing(Budget):
    """The budget outside of any rendering, where nothing is counted."""

    def spend(self, steps: int) -> None:
        pass


_nothing = _Nothing()


def check_size(size: int) -> None:
    """Refuse to build a value of this size."""
    if size > MAX_SIZE:
        raise TooMuchError(f"it builds a text or list of size {size:,}, and {MAX_SIZE:,} are allowed")


def size_of(value: Any) -> int:
    """The size of a value, at least 1; counting stops above the limit.

    >>> size_of("abc"), size_of(["abc", "d"])
    (3, 68)
    """
    if isinstance(value, str | bytes):
        return len(value) or 1
    total = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, int):
            total += item.bit_length() // 3
        elif isinstance(item, _COLLECTIONS):
            total += _ITEM * len(item)
            waiting += item if total <= MAX_SIZE else ()
        elif isinstance(item, dict):
            total += _ITEM * len(item)
            waiting += [*item.keys(), *item.values()] if total <= MAX_SIZE else ()
        elif isinstance(item, Namespace):
            attributes = object.__getattribute__(item, "_Namespace__attrs")
            total += _ITEM * len(attributes)
            waiting += attributes.values()
        if total > MAX_SIZE:
            return total
    return total or 1


def checked(value: Any) -> Any:
    """The value, whose size is within the limit and paid for; items of an iterator are checked one by one."""
    kind = type(value)
    if kind is str:
        check_size(len(value))
        spend(1 + len(value) // 64)
        return value
    if kind in _SMALL or isinstance(value, Undefined):
        spend(1)
        return value
    if isinstance(value, Iterator):
        return _each_checked(value)
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise TooMuchError(f"it computes a number of {value.bit_length():,} binary digits")
    size = size_of(value)
    check_size(size)
    spend(1 + size // 64)
    return value


def _each_checked(items: Iterator[Any]) -> Iterator[Any]:
    paying = budget.get(_nothing)  # the iterator may be read when the rendering is over
    for item in items:
        paying.spend(1 + size_of(item) // 64)
        yield item


def check_percent(text: str | bytes, values: Any) -> None:
    """Refuse ``text % values`` where it would be too long."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    fields = [match.groups() for match in _PERCENT.finditer(shown)]
    written = sum(int(number) for field in fields for number in field if number and number != "*")
    arguments = list(values.values()) if isinstance(values, dict) else values if isinstance(values, tuple) else [values]
    if any("*" in field for field in fields):  # the widths are among the values
        written += sum(abs(value) for value in arguments if isinstance(value, int))
    largest = max(map(size_of, arguments), default=0)
    repeated = len(fields) * largest if isinstance(values, dict) else sum(map(size_of, arguments))
    check_size(len(text) + written + repeated)


def check_spec(spec: str) -> None:
    """Refuse a format specification, as in ``{:>80}`` or of a date, with a width that is too large."""
    for number in _DIGITS.findall(spec):
        check_size(int(number) if len(number) < 12 else 10**12)


def check_product(left: Any, right: Any) -> None:
    """Refuse ``left * right`` where it would be too large."""
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
        return
    sized, number = (left, right) if hasattr(left, "__len__") else (right, left)
    if hasattr(sized, "__len__") and isinstance(number, int):
        check_size(size_of(sized) * max(number, 0))


def check_power(base: Any, exponent: Any) -> None:
    """Refuse ``base ** exponent`` where it would be too large."""
    if isinstance(base, int) and isinstance(exponent, int):
        _check_bits(base.bit_length() * exponent)


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TooMuchError(f"it computes a number of {bits:,} binary digits")


def _padded(text: Any, width: Any = 0, *_: Any) -> int:
    return len(text) + (width if isinstance(width, int) else 0)


def _expanded(text: str | bytes, tabsize: Any = 8) -> int:
    tabs = text.count(b"\t") if isinstance(text, bytes) else text.count("\t")
    return len(text) + tabs * (tabsize if isinstance(tabsize, int) else 0)


def _replaced(text: Any, old: Any, new: Any, count: Any = -1, *_: Any) -> int:
    places = text.count(old) if isinstance(old, str | bytes) else 0  # of an int there is none to replace
    places = min(places, count) if isinstance(count, int) and count >= 0 else places
    return len(text) + places * size_of(new)


def _joined(separator: Any, items: Any = (), *_: Any) -> int:
    number = len(items) if hasattr(items, "__len__") else 0
    return size_of(items) + number * len(separator)


def _translated(text: Any, table: Any = None, *_: Any) -> int:
    longest = max(map(size_of, table.values()), default=1) if isinstance(table, Mapping) else 1
    return len(text) * longest


def _to_bytes(number: int, length: Any = 1, *_: Any, **__: Any) -> int:
    return length if isinstance(length, int) else 0


#: The length of what a method returns, computed from what it is called on and with.
_LENGTHS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _padded),
    "expandtabs": _expanded,
    "replace": _replaced,
    "join": _joined,
    "translate": _translated,
    "to_bytes": _to_bytes,
}


def check_method(instance: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call of a method whose result would be too long."""
    spend(size_of(instance) // 64)
    if name == "strftime":
        check_spec(str(args[0] if args else kwargs.get("format", "")))
    length = _LENGTHS.get(name) if isinstance(instance, str | bytes | int) else None
    if length is not None:
        try:
            check_size(length(instance, *args, **kwargs))
        except TypeError:  # wrong arguments, which the call itself reports
            return


def check_filter(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a filter whose result would be too long; `args` begin with the value that it is applied to."""
    length = _FILTERED.get(name)
    if length is not None and args:
        try:
            check_size(length(*args, **kwargs))
        except TypeError:
            return


def _indented(text: Any, width: Any = 4, *_: Any, **__: Any) -> int:
    per_line = len(width) if isinstance(width, str) else int(width)
    return len(str(text)) + (str(text).count("\n") + 1) * per_line


def _wrapped(text: Any, width: Any = 79, break_long_words: Any = True, wrapstring: Any = None, *_: Any) -> int:
    return len(str(text)) * (1 + len(wrapstring or "\n") // max(1, int(width)))


def _batched(items: Any, linecount: Any, fill_with: Any = None) -> int:
    return int(linecount) if fill_with is not None else 0


def _listed(items: Any, separator: Any = "", *_: Any, **__: Any) -> int:
    return _joined(str(separator), items)


def _json(value: Any, indent: Any = None) -> int:
    return size_of(value) * (1 + (int(indent) if indent else 0))


def _percent(text: Any, *args: Any, **kwargs: Any) -> int:
    check_percent(str(text), kwargs or args)
    return 0


def _replaced_as_text(text: Any, old: Any, new: Any, count: Any = None, *_: Any) -> int:
    return _replaced(str(text), str(old), str(new), -1 if count is None else count)


_FILTERED: dict[str, Callable[..., int]] = {
    "batch": _batched,
    "center": lambda text, width=80: _padded(str(text), width),
    "format": _percent,
    "indent": _indented,
    "join": _listed,
    "replace": _replaced_as_text,
    "tojson": _json,
    "wordwrap": _wrapped,
}


def bounded_text(chunks: Iterable[str]) -> str:
    """The parts as one text, as long as that is not too long."""
    texts: list[str] = []
    length = 0
    for part in chunks:
        length += len(part)
        check_size(length)
        texts.append(part)
    return "".join(texts)
