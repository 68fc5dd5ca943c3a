"""Filters that a task brings along: functions and classes over lists of documents, as lm-eval calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, DataError, shorten
from multiform.fields import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class OverDocuments:
    """A filter function over lists of documents, called for one document at a time.

    `alone` says that `take_first` came before, after which lm-eval passes each document's response by itself
    instead of in a list.
    """

    function: Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False

    def __call__(self, outputs: Sequence[Any], doc: Doc) -> list[Any]:
        argument = outputs[0] if self.alone and len(outputs) == 1 else list(outputs)
        results = self.function([argument], [doc], **self.kwargs)
        if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
            message = f"{name_of(self.function)} returned {shorten(results)}"
            raise DataError(message, hint="return a list with the outputs of each document")
        results = list(results)
        if len(results) != 1:
            message = f"{name_of(self.function)} returned {len(results)} results for 1 document"
            raise DataError(message, hint="return one list of outputs for each document")
        return list(results[0]) if isinstance(results[0], list | tuple) else results


def from_callable(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """The filter of ``function: !function``: a class with `apply`, a factory, or a plain function.

    A class or factory is called with the arguments. A function that still wants two arguments after
    that is the filter itself: ``function(resps, docs, **kwargs)``.
    """
    missing = 0 if inspect.isclass(function) else _wanted(function, kwargs)
    if missing == 2:
        return OverDocuments(function=function, kwargs=kwargs)
    if missing:
        message = (
            f"filter function {name_of(function)} takes {missing} more argument{'s' if missing > 1 else ''}, not 2"
        )
        raise ConfigError(message, hint="write it as function(resps, docs)")
    return made_filter(function(**kwargs), name_of(function))


def made_filter(filter: Any, name: str) -> Callable[..., Any]:
    """The filter of one document for what a factory returned: an object with `apply`, or a function."""
    if callable(getattr(filter, "apply", None)):
        problem = mismatch(filter.apply, [], [])
        if problem is not None:
            message = f"filter '{name}': its apply cannot be called with outputs and documents: {problem}"
            raise ConfigError(message, hint="write it as apply(self, resps, docs)")
        return OverDocuments(function=filter.apply)
    if not callable(filter):
        message = f"filter '{name}' is of type {type(filter).__name__}"
        raise ConfigError(message, hint="give a class with apply(resps, docs), or a function(resps, docs)")
    problem = mismatch(filter, [], {})
    if problem is not None:
        message = f"filter '{name}': its function cannot be called with the outputs of a document and the document"
        raise ConfigError(f"{message}: {problem}", hint="return a function(outputs, doc)")
    return filter  # type: ignore[no-any-return]


def _wanted(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> int:
    """How many positional arguments a function still needs beside the named ones."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in positional and p.default is p.empty and p.name not in kwargs for p in parameters)
