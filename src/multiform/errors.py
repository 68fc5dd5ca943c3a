"""The exceptions that Multiform raises, as one tree.

    MultiformError
    ├── ConfigError     a task, format or group file says something that cannot be
    ├── DataError       a dataset, split, column or document is not as the task needs it
    │   └── MissingColumnError    a field names a column that a document does not have
    ├── UsageError      a command line or function call names or combines things wrongly
    └── ModelError      a model could not be loaded, or failed on a request
        └── IncompleteRunError    a run ended before all documents were scored

    RunInterrupted      a KeyboardInterrupt: Ctrl-C or SIGTERM ended a run

Every message reads ``where: what; what to do``. The first three are the user's input (exit
code 2), a ModelError is a failed run (exit code 1).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

ErrorKind = TypeVar("ErrorKind", bound="MultiformError")


class MultiformError(Exception):
    """Base of all errors; ``str(error)`` is the one message that a user needs."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        message = f"{self.where}: {self.what}" if self.where else self.what
        return f"{message}; {self.hint}" if self.hint else message

    def relocate(self, where: str | None, *, what: str | None = None) -> Self:
        """The same error at another place, and with another message if one is given."""
        return type(self)(self.what if what is None else what, where=where, hint=self.hint)

    def as_kind(self, error_class: type[ErrorKind], where: str | None = None) -> ErrorKind:
        """The same error as one of another class, at this place if one is given.

        >>> str(DataError("no answer", where="quiz.yaml:7", hint="add one").as_kind(UsageError, "--tasks"))
        '--tasks: no answer; add one'
        """
        return error_class(self.what, where=self.where if where is None else where, hint=self.hint)

    def or_at(self, where: str | None) -> Self:
        """The same error, at this place unless it already names one."""
        return self if self.where else self.relocate(where)

    def at(self, where: str) -> Self:
        """The same error with a wider place put in front of the one it has."""
        return self.relocate(f"{where}: {self.where}" if self.where else where)


class ConfigError(MultiformError):
    """A task, format or group definition is wrong."""

    exit_code = 2


class DataError(MultiformError):
    """A dataset, split, column or document is not as the task needs it."""

    exit_code = 2


class MissingColumnError(DataError):
    """A field names a column that a document does not have."""


class UsageError(MultiformError):
    """A command line or a function call is wrong."""

    exit_code = 2


class ModelError(MultiformError):
    """A model could not be loaded or failed on a request."""


class IncompleteRunError(ModelError):
    """A run ended before all its documents were scored, because requests or the model failed.

    `results` holds the scores of the documents that were scored; None if there are none.
    """

    results: Any = None


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended a run; `signal` is the number of the signal.

    `results` holds the scores of the documents that were scored; None if there are none.
    """

    def __init__(self, what: str, *, signal: int, results: Any = None) -> None:
        super().__init__(what)
        self.signal = signal
        self.results = results


def nearest(name: str, known: Iterable[str], *, listed: str = "known") -> str:
    """A hint that suggests the nearest known name, or lists what there is.

    >>> nearest("choises", ["question", "choices"])
    "did you mean 'choices'?"
    >>> nearest("xyz", ["b", "a"], listed="formats")
    'formats: a, b'
    """
    names = sorted(set(map(str, known)))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"{listed}: {list_first(names, 20) or 'none'}"


def quantity(number: int, noun: str) -> str:
    """A number of things.

    >>> quantity(1, "document"), quantity(1200, "request")
    ('1 document', '1,200 requests')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_first(names: Sequence[object], number: int) -> str:
    """The first names, and how many more there are.

    >>> list_first(["a", "b", "c"], 2), list_first(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    more = len(names) - number
    return ", ".join(map(str, names[:number])) + (f" and {more} more" if more > 0 else "")


def excerpt(value: object, limit: int = 80) -> str:
    """``repr(value)``, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def reason(error: BaseException, limit: int = 300) -> str:
    """An error of somebody else's code on one line: its class and what it says.

    >>> reason(ValueError("two\\nlines"))
    'ValueError: two lines'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:limit]


class running:  # noqa: N801  (it reads as a verb: with running("process_docs"))
    """A block that runs somebody else's code: whatever that raises becomes one error that names it.

    Our own errors and interrupts pass unchanged; `sys.exit` is a failure like any other.

    >>> with running("process_docs", hint="call it to debug it"):
    ...     raise KeyError("question")
    Traceback (most recent call last):
    multiform.errors.DataError: process_docs failed: KeyError: 'question'; call it to debug it
    """

    __slots__ = ("hint", "raises", "what", "where")

    def __init__(
        self, what: str, *, raises: type[MultiformError] = DataError, where: str | None = None, hint: str | None = None
    ) -> None:
        self.what, self.raises, self.where, self.hint = what, raises, where, hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if error is not None and not isinstance(error, MultiformError | KeyboardInterrupt):
            raise self.raises(f"{self.what} failed: {reason(error)}", where=self.where, hint=self.hint) from error


class locating:  # noqa: N801  (it reads as a verb: with locating("doc 3"))
    """Add a place, such as the number of a document, to the input errors of a block.

    >>> with locating("doc 3"):
    ...     raise DataError("no answer", where="quiz.yaml:7")
    Traceback (most recent call last):
    multiform.errors.DataError: quiz.yaml:7: doc 3: no answer
    """

    __slots__ = ("place",)

    def __init__(self, place: str | None) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, DataError | ConfigError):
            raise self.relocate(error) from error

    def relocate(self, error: MultiformError) -> MultiformError:
        """The error with the place after the one that it has."""
        return error.relocate(f"{error.where}: {self.place}" if error.where else self.place)


class placing(locating):  # noqa: N801
    """Give a place to those input errors of a block that have none."""

    __slots__ = ()

    def relocate(self, error: MultiformError) -> MultiformError:
        return error.or_at(self.place)
