"""Filters: what is read out of a model's outputs before they are scored.

A filter maps the list of outputs of one document (one per repeat) to another list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.fields import Doc
from multiform.registry import Registry

Filter = Callable[[Sequence[Any], Doc], list[Any]]
FilterFactory = Callable[..., Filter]

filters: Registry[FilterFactory] = Registry("filter")
register_filter = filters.register


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Filters in a row, under the name that results are keyed by.

    `single` says that one output is left of all repeats, which is then handed on by itself.
    """

    name: str
    steps: tuple[Filter, ...]
    single: bool = True

    def __call__(self, outputs: Sequence[Any], doc: Doc) -> list[Any]:
        for step in self.steps:
            outputs = step(outputs, doc)
        return list(outputs)


def build_pipeline(name: str, steps: Sequence[Mapping[str, Any]]) -> Pipeline:
    """The filters that a `filter_list` entry names, with their arguments."""
    single = any(step["function"] in ("take_first", "majority_vote") for step in steps)
    return Pipeline(name, tuple(_build_step(step) for step in steps), single)


def _build_step(step: Mapping[str, Any]) -> Filter:
    function = step["function"]
    kwargs = {**(step.get("kwargs") or {}), **{k: v for k, v in step.items() if k not in ("function", "kwargs")}}
    if callable(function):
        return custom(function, **kwargs)
    if function not in filters:
        raise ConfigError(f"unknown filter '{function}'", hint=nearest(str(function), filters, listed="filters"))
    try:
        return filters.get(function)(**kwargs)
    except TypeError as error:
        raise ConfigError(f"filter '{function}': {error}", hint="check its arguments") from error
    except re.error as error:
        raise ConfigError(f"filter '{function}': bad regular expression: {error}", hint="test the pattern") from error


def _each(function: Callable[[Any], Any]) -> Filter:
    return lambda outputs, doc: [function(output) for output in outputs]


@register_filter("noop")
def noop() -> Filter:
    """Leaves the outputs as they are."""
    return lambda outputs, doc: list(outputs)


@register_filter("take_first")
def take_first() -> Filter:
    """Keeps the first output."""
    return lambda outputs, doc: list(outputs[:1])


@register_filter("take_first_k")
def take_first_k(k: int = 1) -> Filter:
    """Keeps the first k outputs."""
    return lambda outputs, doc: list(outputs[:k])


@register_filter("majority_vote")
def majority_vote() -> Filter:
    """Keeps the most frequent output, the first of equals."""
    return lambda outputs, doc: [Counter(outputs).most_common(1)[0][0]] if outputs else []


@register_filter("remove_whitespace")
def remove_whitespace() -> Filter:
    """Removes white space at the beginning."""
    return _each(lambda text: text.lstrip())


@register_filter("lowercase")
def lowercase() -> Filter:
    """Lower-cases the text."""
    return _each(lambda text: text.lower())


@register_filter("uppercase")
def uppercase() -> Filter:
    """Upper-cases the text."""
    return _each(lambda text: text.upper())


@register_filter("map")
def map_values(mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None) -> Filter:
    """Looks the text up in a table."""
    table = dict(mapping_dict or {})
    return _each(lambda text: table.get(text, default_value))


@register_filter("regex")
def regex(regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = "[invalid]") -> Filter:
    """Keeps what a regular expression finds; `group_select` says which match, -1 the last."""
    pattern = re.compile(regex_pattern)

    def find(text: Any) -> str:
        found = pattern.findall(text) if isinstance(text, str) else []
        if not -len(found) <= group_select < len(found):
            return fallback
        match = found[group_select]
        if isinstance(match, tuple):
            match = next((part for part in match if part), fallback)
        return str(match).strip()

    return _each(find)


@register_filter("custom")
def custom(filter_fn: Callable[..., Any], **kwargs: Any) -> Filter:
    """Calls a function with the outputs and documents of many: lists of one here."""

    def apply(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        return list(next(iter(filter_fn([list(outputs)], [doc], **kwargs))))

    return apply
