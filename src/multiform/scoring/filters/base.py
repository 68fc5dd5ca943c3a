"""The registry of filters, and the pipelines of a task's `filter_list`.

A filter maps the list of responses to one document (one per repeat) to another list. Functions and
classes that a task brings along take lists over documents; see `functions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiform.deadline import MAX_SECONDS, TimeLimitError, within
from multiform.errors import ConfigError, DataError, MultiformError, nearest, reason, shorten
from multiform.fields import Doc
from multiform.registry import Registry
from multiform.scoring.filters.functions import OverDocuments, from_callable, made_filter

Filter = Callable[[Sequence[Any], Doc], list[Any]]
FilterFactory = Callable[..., Any]

#: Factories of filters: functions that return one, or lm-eval's classes with ``apply(resps, docs)``.
filters: Registry[FilterFactory] = Registry("filter")
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
    #: The largest number of responses that are left, where that is known.
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
        filters_in_order.append(_guarded(built, _step_name(step), limit))
    single = any(step["function"] in _SINGLE for step in steps)
    names = tuple(_step_name(step) for step in steps)
    return Pipeline(name, tuple(filters_in_order), single, 1 if single else _most(steps), names)


def _most(steps: Sequence[Mapping[str, Any]]) -> int | None:
    """The smallest `k` of the pipeline's `take_first_k` filters."""
    limits = [{**step, **(step.get("kwargs") or {})}.get("k") for step in steps if step["function"] == "take_first_k"]
    return min((k for k in limits if isinstance(k, int)), default=None)


@register_filter("custom")
def custom(filter_fn: Callable[..., Any], **kwargs: Any) -> Filter:
    """Calls ``filter_fn(responses, docs)``, each a list over documents."""
    return OverDocuments(function=filter_fn, kwargs=kwargs)


def _build_step(step: Mapping[str, Any]) -> Filter:
    function = step["function"]
    kwargs = {**(step.get("kwargs") or {}), **{k: v for k, v in step.items() if k not in ("function", "kwargs")}}
    if not callable(function) and function not in filters:
        raise ConfigError(f"unknown filter '{function}'", hint=nearest(str(function), filters, listed="filters"))
    try:
        if callable(function):
            return from_callable(function, kwargs)
        return made_filter(filters.get(function)(**kwargs), function)
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


def _guarded(step: Filter, name: str, seconds: float) -> Filter:
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
