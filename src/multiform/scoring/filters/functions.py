"""Filters that a task brings along: functions and classes over lists of documents, in lm-eval's styles."""

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
    """Calls ``function(outputs of many, their docs)`` with lists of one.

    `alone` says that `take_first` came before, after which lm-eval hands on each document's output
    by itself and not in a list.
    """

    function: Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False

    def __call__(self, outputs: Sequence[Any], doc: Doc) -> list[Any]:
        given = outputs[0] if self.alone and len(outputs) == 1 else list(outputs)
        made = self.function([given], [doc], **self.kwargs)
        if isinstance(made, str | bytes | Mapping) or not isinstance(made, Iterable):
            what = f"{name_of(self.function)} returned {shorten(made)}"
            raise DataError(what, hint="return a list with the outputs of each document")
        made = list(made)
        if len(made) != 1:
            what = f"{name_of(self.function)} returned {len(made)} results for 1 document"
            raise DataError(what, hint="return one list of outputs for each document")
        return list(made[0]) if isinstance(made[0], list | tuple) else made


def from_callable(given: Callable[..., Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """The filter of ``function: !function``: a class with `apply`, a factory, or a plain function.

    A class or factory is called with the arguments. A function that still wants two arguments after
    that is the filter itself: ``function(outputs of many, their docs, **kwargs)``.
    """
    wanted = 0 if inspect.isclass(given) else _wanted(given, kwargs)
    if wanted == 2:
        return OverDocuments(function=given, kwargs=kwargs)
    if wanted:
        what = f"filter function {name_of(given)} takes {wanted} more argument{'s' if wanted > 1 else ''}, not 2"
        raise ConfigError(what, hint="write it as function(resps, docs)")
    return made_filter(given(**kwargs), name_of(given))


def made_filter(made: Any, name: str) -> Callable[..., Any]:
    """What a factory made, as a filter of one document: an object with `apply`, or a function."""
    if callable(getattr(made, "apply", None)):
        problem = mismatch(made.apply, [], [])
        if problem is not None:
            what = f"filter '{name}': its apply cannot be called with outputs and documents: {problem}"
            raise ConfigError(what, hint="write it as apply(self, resps, docs)")
        return OverDocuments(function=made.apply)
    if not callable(made):
        what = f"filter '{name}' is of type {type(made).__name__}"
        raise ConfigError(what, hint="give a class with apply(resps, docs), or a function(resps, docs)")
    problem = mismatch(made, [], {})
    if problem is not None:
        what = f"filter '{name}': its function cannot be called with the outputs of a document and the document"
        raise ConfigError(f"{what}: {problem}", hint="return a function(outputs, doc)")
    return made  # type: ignore[no-any-return]


def _wanted(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> int:
    """How many arguments have to be given by position beside the named ones."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in positional and p.default is p.empty and p.name not in kwargs for p in parameters)
