"""User-defined functions and methods: their arguments, what keeps them from being called, and what they override."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from multiform.errors import ConfigError


def name_of(function: Any) -> str:
    """What to call a function, class or callable object in a message.

    >>> name_of(len), name_of(partial(max, 0))
    ('len', 'max')
    """
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None) or type(inner).__name__)


def mismatch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Why a function cannot be called with these arguments; None if it can, or if nobody knows.

    >>> mismatch(lambda values: 1.0, [])
    >>> mismatch(lambda: 1.0, [])
    'too many positional arguments'
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have no signature
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def check_call(
    function: Callable[..., Any], *args: Any, what: str, hint: str, where: str | None = None, **kwargs: Any
) -> None:
    """Raise a ConfigError that begins with `what` if a function cannot be called with these arguments."""
    problem = mismatch(function, *args, **kwargs)
    if problem is not None:
        raise ConfigError(f"{what}: {problem}", where=where, hint=hint)


def accepted_arguments(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the named arguments that a function takes.

    >>> accepted_arguments(lambda doc, doc_id: None, {"doc_id": 3, "metadata": None})
    {'doc_id': 3}
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return dict(options)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(options)
    named = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return {key: value for key, value in options.items() if key in named}


def overridden_methods(cls: type, base: type, names: Iterable[str]) -> dict[str, type]:
    """Those of the names that a subclass defines anew, each with the class that defines it.

    >>> class Base:
    ...     def first(self): ...
    ...     def second(self): ...
    >>> class Derived(Base):
    ...     def second(self): ...
    >>> list(overridden_methods(Derived, Base, ["first", "second", "third"]))
    ['second']
    """
    definers = {name: next((each for each in cls.__mro__ if name in each.__dict__), None) for name in names}
    return {name: each for name, each in definers.items() if each is not None and each not in base.__mro__}
