"""Filters, which are applied to a model's responses before they are scored, and the pipelines of a `filter_list`.

A filter maps the list of responses to one document (one per repeat) to another list. Functions and
classes that a task brings along take lists over documents, as lm-eval calls them; see `OverDocuments`.
"""

from __future__ import annotations

import inspect
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, DataError, MultiformError, excerpt, reason
from multiform.fields import Doc
from multiform.labels import label_list
from multiform.limits import MAX_SECONDS, TimeLimitError, within
from multiform.registry import Registry

#: The result at the end of GSM8K's solutions.
DEFAULT_PATTERN = r"#### (\-?[0-9\.\,]+)"
INVALID = "[invalid]"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")
#: What models call the kinds of entities, and the four tags of the benchmarks.
_TAGS = {
    **dict.fromkeys(("person", "persons", "people", "per"), "PER"),
    **dict.fromkeys(("location", "places", "counties", "country", "continent", "loc"), "LOC"),
    **dict.fromkeys(("organization", "company", "org"), "ORG"),
    **dict.fromkeys(("time", "date"), "DATE"),
}
_TAG = re.compile(rf"\b({'|'.join(_TAGS)})\s*:")
_TAGGED = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


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
            message = f"{name_of(self.function)} returned {excerpt(results)}"
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
        what = f"filter '{name}': its apply cannot be called with outputs and documents"
        check_call(filter.apply, [], [], what=what, hint="write it as apply(self, resps, docs)")
        return OverDocuments(function=filter.apply)
    if not callable(filter):
        message = f"filter '{name}' is of type {type(filter).__name__}"
        raise ConfigError(message, hint="give a class with apply(resps, docs), or a function(resps, docs)")
    what = f"filter '{name}': its function cannot be called with the outputs of a document and the document"
    check_call(filter, [], {}, what=what, hint="return a function(outputs, doc)")
    return filter  # type: ignore[no-any-return]


def _count_missing(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> int:
    """How many positional arguments a function still needs beside the named ones."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty and p.name not in kwargs for p in positional)


Filter = Callable[[Sequence[Any], Doc], list[Any]]
FilterFactory = Callable[..., Any]

#: Factories of filters: functions that return one, or lm-eval's classes with ``apply(resps, docs)``.
filters: Registry[FilterFactory] = Registry("filter", group="multiform.filters", raises=ConfigError)
register_filter = filters.register

#: Filters that leave a single response.
_SINGLE = ("take_first", "majority_vote")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A sequence of filters, with the name that results are keyed by.

    `single` says that one of the repeats is left, which is then scored by itself instead of as a list.
    """

    name: str
    #: The filters by what they are called in a task file.
    steps: tuple[tuple[str, Filter], ...]
    single: bool = True
    #: The largest number of responses that are left, if that is known.
    most: int | None = None
    #: Is told the name of each step and what it left.
    record: Callable[[str, list[Any]], None] | None = None

    def __call__(self, outputs: Sequence[Any], doc: Doc) -> list[Any]:
        for name, step in self.steps:
            outputs = step(outputs, doc)
            if self.record is not None:
                self.record(name, list(outputs))
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
        filters_in_order.append((_step_name(step), _guard(built, _step_name(step), limit)))
    single = any(step["function"] in _SINGLE for step in steps)
    limits = [{**step, **(step.get("kwargs") or {})}.get("k") for step in steps if step["function"] == "take_first_k"]
    most = min((k for k in limits if isinstance(k, int)), default=None)
    return Pipeline(name, tuple(filters_in_order), single, 1 if single else most)


def _build_step(step: Mapping[str, Any]) -> Filter:
    function = step["function"]
    kwargs = {**(step.get("kwargs") or {}), **{k: v for k, v in step.items() if k not in ("function", "kwargs")}}
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
        message = f"filter '{name}' returned {excerpt(filtered)}, not a list of outputs"
        raise DataError(message, hint="return a list, with an output for each that it gets")

    return apply


# The built-in filters.


def each(function: Callable[[Any], Any]) -> Filter:
    """A filter that applies a function to each response."""
    return lambda outputs, doc: [function(output) for output in outputs]


@register_filter("custom")
def custom(filter_fn: Callable[..., Any], **kwargs: Any) -> Filter:
    """Calls ``filter_fn(responses, docs)``, each a list over documents."""
    return OverDocuments(function=filter_fn, kwargs=kwargs)


@register_filter("remove_whitespace")
def remove_whitespace() -> Filter:
    """Removes white space at the beginning and the end."""
    return each(lambda text: text.strip())


@register_filter("lowercase")
def lowercase() -> Filter:
    """Lower-cases the text."""
    return each(lambda text: text.lower())


@register_filter("uppercase")
def uppercase() -> Filter:
    """Upper-cases the text."""
    return each(lambda text: text.upper())


@register_filter("map")
def map_values(mapping_dict: Any = None, default_value: Any = None) -> Filter:
    """Looks the text up in a table."""
    if mapping_dict is not None and not isinstance(mapping_dict, Mapping):
        message = f"map: expected mapping_dict to be a mapping, got {excerpt(mapping_dict)}"
        raise ConfigError(message, hint="write mapping_dict: {yes: 1, no: 0}")
    table = dict(mapping_dict or {})
    return each(lambda text: table.get(text, default_value))


@register_filter("format_span")
def format_span() -> Filter:
    """Normalises named entities to ``tag: entity $ tag: entity``."""
    return each(span)


def span(text: str) -> str:
    r"""The named entities of a text, each with its tag; lists are split, and "none" is left out.

    >>> span("Person: Ada Lovelace $$ LOCATION: London, Paris\norg: None")
    'per: ada lovelace $ loc: london $ loc: paris'
    """
    tagged = _TAG.sub(lambda match: f"{_TAGS[match[1]]}:", text.lower())
    joined = tagged.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    pairs = [(tag.lower(), entity.strip()) for tag, listed in _TAGGED.findall(joined) for entity in listed.split(",")]
    return " $ ".join(f"{tag}: {entity}" for tag, entity in pairs if entity != "none")


@register_filter("regex")
def regex(regex_pattern: str = DEFAULT_PATTERN, group_select: int = 0, fallback: Any = INVALID) -> Filter:
    """Extracts a match of a regular expression; `group_select` is the index of the match, -1 for the last."""
    if not isinstance(group_select, int):
        raise TypeError(f"group_select is {group_select!r}, not a whole number")
    pattern = re.compile(regex_pattern)

    def find(text: Any) -> Any:
        match = find_match(pattern, text, group_select, empty=fallback)
        return fallback if match is None else match

    return each(find)


@register_filter("regex_pos")
def regex_pos(regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: Any = None) -> Filter:
    """Extracts the tags of ``('token', 'TAG')`` pairs; as in lm-eval, `regex_pattern` is ignored."""
    re.compile(regex_pattern)
    missing = ["invalid"] if fallback is None else fallback

    def tags(text: Any) -> Any:
        pairs = _TAGGED_TOKEN.findall(text) if isinstance(text, str) else text
        return [tag for _, tag in pairs] or missing

    return each(tags)


@register_filter("multi_choice_regex")
def multi_choice_regex(
    regex_pattern: str = DEFAULT_PATTERN,
    group_select: int = 0,
    fallback: Any = INVALID,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: Sequence[str] | None = None,
) -> Filter:
    """Extracts the label of a choice, such as ``(B)``: a match, the text of the choice, or a letter after a colon.

    The choices are the document's column `choices`, a list of texts.
    """
    pattern = re.compile(regex_pattern)
    ignored = [re.compile(pattern_to_ignore) for pattern_to_ignore in regexes_to_ignore or ()]

    def plain(text: str) -> str:
        for pattern_to_ignore in ignored:
            text = pattern_to_ignore.sub("", text)
        text = text.lower() if ignore_case else text
        return "".join(char for char in text if not ignore_punctuation or unicodedata.category(char)[0] != "P")

    def apply(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        choices = [plain(choice.strip()) for choice in _choices(doc)]
        labels = label_list(len(choices))
        shown = {choice: f"({label})" for choice, label in zip(choices, labels, strict=True)}
        # The longest first: a choice may be the beginning of another.
        spelled = re.compile("|".join(sorted(map(re.escape, choices), key=len, reverse=True)))
        lettered = re.compile(rf":\s*({'|'.join(labels)})")

        def extract(text: Any) -> Any:
            if match := find_match(pattern, text, group_select):
                return match
            if match := find_match(spelled, plain(text) if isinstance(text, str) else "", group_select):
                return shown.get(match, match)
            label = find_match(lettered, text, group_select)
            return f"({label})" if label else fallback

        return [extract(text) for text in outputs]

    return apply


def find_match(pattern: re.Pattern[str], text: Any, group_select: int = 0, *, empty: Any = "") -> Any:
    """A match of a pattern, stripped, or its first group that is not empty; None if there is no such match.

    >>> find_match(re.compile(r"(yes)|(no)"), "yes or no", -1), find_match(re.compile("x"), "y") is None
    ('no', True)
    """
    matches = pattern.findall(text if isinstance(text, str) else "")
    if not -len(matches) <= group_select < len(matches):
        return None
    match = matches[group_select]
    if isinstance(match, tuple):
        match = next((part for part in match if part), empty)
    return match.strip() if isinstance(match, str) else match


def _choices(doc: Doc) -> Sequence[str]:
    choices = doc.get("choices")
    if isinstance(choices, list | tuple) and all(isinstance(choice, str) for choice in choices):
        return choices
    problem = f"it is {excerpt(choices)}" if "choices" in doc else "there is none"
    message = f"multi_choice_regex needs a column 'choices' that lists the choices' texts; {problem}"
    raise DataError(message, hint="add the column in process_docs")


@register_filter("noop")
def noop() -> Filter:
    """Leaves the responses as they are."""
    return lambda outputs, doc: list(outputs)


@register_filter("take_first")
def take_first() -> Filter:
    """Keeps the first response."""
    return lambda outputs, doc: list(outputs[:1])


@register_filter("take_first_k")
def take_first_k(k: int) -> Filter:
    """Keeps the first k responses."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"take_first_k: k is {k!r}", hint="give a whole number of 1 or more")

    def take(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        if len(outputs) < k:
            message = f"take_first_k wants {k} outputs and there are {len(outputs)}"
            raise ConfigError(message, hint=f"set repeats: {k} or more")
        return list(outputs[:k])

    return take


@register_filter("majority_vote")
def majority_vote() -> Filter:
    """Keeps the most frequent response, the first of equals."""
    return lambda outputs, doc: [Counter(outputs).most_common(1)[0][0]] if outputs else []


@register_filter("decontaminate")
def decontaminate(path: str) -> Filter:
    """Refused: lm-eval's filter of this name returns nothing, so there is no result to agree with."""
    raise ConfigError("filter 'decontaminate' is not supported", hint="remove it; lm-eval's does nothing either")
