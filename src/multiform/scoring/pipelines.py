"""The registry of filters, and the pipelines of a task's `filter_list`.

A filter maps the list of responses to one document (one per repeat) to another list. Functions and
classes that a task brings along take lists over documents, as lm-eval calls them; see `OverDocuments`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, DataError, MultiformError, nearest, reason, shorten
from multiform.fields import Doc
from multiform.limits import MAX_SECONDS, TimeLimitError, within
from multiform.registry import Registry


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
    missing = 0 if inspect.isclass(function) else _count_missing(function, kwargs)
    if missing == 2:
        return OverDocuments(function=function, kwargs=kwargs)
    if missing:
        message = (
            f"filter function {name_of(function)} takes {missing} more argument{'s' if missing > 1 else ''}, not 2"
        )
        raise ConfigError(message, hint="write it as function(resps, docs)")
    return as_filter(function(**kwargs), name_of(function))


def as_filter(filter: Any, name: str) -> Callable[..., Any]:
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


def _count_missing(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> int:
    """How many positional arguments a function still needs beside the named ones."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in positional and p.default is p.empty and p.name not in kwargs for p in parameters)


Filter = Callable[[Sequence[Any], Doc], list[Any]]
FilterFactory = Callable[..., Any]

#: Factories of filters: functions that return one, or lm-eval's classes with ``apply(resps, docs)``.
filters: Registry[FilterFactory] = Registry("filter", group="multiform.filters")
register_filter = filters.register

#: Filters that leave a single response.
_SINGLE = ("take_first", "majority_vote")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A sequence of filters, with the name that results are keyed by.

    `single` says that one of the repeats is left, which is then scored by itself instead of as a list.
    """

    name: str
    steps: tuple[Filter, ...]
    single: bool = True
    #: The largest number of responses that are left, if that is known.
    most: int | None = None
    #: What the steps are called in a task file.
    names: tuple[str, ...] = ()

    def recording(self, record: Callable[[str, list[Any]], None]) -> Pipeline:
        """The same pipeline, which reports the name of each step and what it left."""

        def reporting(step: Filter, name: str) -> Filter:
            def apply(outputs: Sequence[Any], doc: Doc) -> list[Any]:
                filtered = step(outputs, doc)
                record(name, filtered)
                return filtered

            return apply

        return replace(self, steps=tuple(map(reporting, self.steps, self.names)))

    def __call__(self, outputs: Sequence[Any], doc: Doc) -> list[Any]:
        for step in self.steps:
            outputs = step(outputs, doc)
        return list(outputs)


def build_pipeline(name: str, steps: Sequence[Mapping[str, Any]]) -> Pipeline:
    """Build the pipeline of a `filter_list` entry.

    >>> pipeline = build_pipeline("last", [
    ...     {"function": "regex", "regex_pattern": "[0-9]+", "group_select": -1},
    ...     {"function": "take_first"},
    ... ])
    >>> pipeline(["3 and 4 are 7", "8"], {})
    ['7']
    """
    filters_in_order = []
    for index, step in enumerate(steps):
        built = _build_step(step)
        after_take_first = any(earlier["function"] == "take_first" for earlier in steps[:index])
        built = replace(built, alone=True) if after_take_first and isinstance(built, OverDocuments) else built
        limit = math.inf if isinstance(built, OverDocuments) else MAX_SECONDS  # code of the task takes its time
        filters_in_order.append(_guard(built, _step_name(step), limit))
    single = any(step["function"] in _SINGLE for step in steps)
    names = tuple(_step_name(step) for step in steps)
    return Pipeline(name, tuple(filters_in_order), single, 1 if single else _smallest_k(steps), names)


def _smallest_k(steps: Sequence[Mapping[str, Any]]) -> int | None:
    """The smallest `k` of the pipeline's `take_first_k` filters."""
    limits = [{**step, **(step.get("kwargs") or {})}.get("k") for step in steps if step["function"] == "take_first_k"]
    return min((k for k in limits if isinstance(k, int)), default=None)


def _build_step(step: Mapping[str, Any]) -> Filter:
    function = step["function"]
    kwargs = {**(step.get("kwargs") or {}), **{k: v for k, v in step.items() if k not in ("function", "kwargs")}}
    if not callable(function) and function not in filters:
        raise ConfigError(f"unknown filter '{function}'", hint=nearest(str(function), filters, listed="filters"))
    try:
        if callable(function):
            return from_callable(function, kwargs)
        return as_filter(filters.get(function)(**kwargs), function)
    except MultiformError:
        raise
    except re.error as error:
        message = f"filter '{_step_name(step)}': bad regular expression: {error}"
        raise ConfigError(message, hint="test the pattern") from error
    except (Exception, SystemExit) as error:  # TypeError for a wrong argument; a task's own class may raise anything
        message = f"filter '{_step_name(step)}': {error or type(error).__name__}"
        raise ConfigError(message, hint="check its arguments") from error


def _step_name(step: Mapping[str, Any]) -> str:
    function = step["function"]
    return str(getattr(function, "__qualname__", function))


def _guard(step: Filter, name: str, seconds: float) -> Filter:
    """The filter, with errors that name it, and a limit on the time that a pattern takes."""

    def apply(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        try:
            with within(seconds):
                filtered = step(outputs, doc)
            if isinstance(filtered, Iterable) and not isinstance(filtered, str | bytes | Mapping):
                return list(filtered)
        except MultiformError as error:
            raise error.at(f"filter '{name}'") from error
        except TimeLimitError as error:
            raise DataError(f"filter '{name}': {error}", hint="make its pattern simpler") from error
        except (Exception, SystemExit) as error:  # a task's own function may raise anything
            message = f"filter '{name}' failed: {reason(error)}"
            raise DataError(message, hint="call it with this document's outputs to debug it") from error
        message = f"filter '{name}' returned {shorten(filtered)}, not a list of outputs"
        raise DataError(message, hint="return a list, with an output for each that it gets")

    return apply
