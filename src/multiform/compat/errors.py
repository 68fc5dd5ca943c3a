"""Errors that are also of the class which lm-eval raises, for scripts that catch that one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from multiform.errors import ModelError, MultiformError


@contextmanager
def convert_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise input errors of a block as errors that are also of this class.

    >>> from multiform.errors import UsageError
    >>> try:
    ...     with convert_errors(KeyError):
    ...         raise UsageError("unknown filter 'lower'", hint="did you mean 'lowercase'?")
    ... except KeyError as error:
    ...     print(f"{error} ({isinstance(error, UsageError)})")
    unknown filter 'lower'; did you mean 'lowercase'? (True)
    """
    try:
        yield
    except MultiformError as error:
        if isinstance(error, (kind, ModelError)):
            raise
        ours = type(error)
        both = type(ours.__name__, (ours, kind), {"__module__": ours.__module__, "__doc__": ours.__doc__})
        raise error.as_kind(both) from error
