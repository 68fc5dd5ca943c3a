"""The built-in filters, which are applied to a model's responses before they are scored."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from multiform.errors import ConfigError, DataError, shorten
from multiform.fields import Doc
from multiform.labels import label_list
from multiform.scoring.pipelines import Filter, OverDocuments, Pipeline, build_pipeline, filters, register_filter

__all__ = [
    "DEFAULT_PATTERN",
    "INVALID",
    "Filter",
    "Pipeline",
    "build_pipeline",
    "filters",
    "find_match",
    "register_filter",
]

#: The result at the end of GSM8K's solutions.
DEFAULT_PATTERN = r"#### (\-?[0-9\.\,]+)"
INVALID = "[invalid]"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")
#: What models call the kinds of entities, and the four tags of the benchmarks.
_TAGS = {
    "person": "PER",
    "persons": "PER",
    "people": "PER",
    "per": "PER",
    "location": "LOC",
    "places": "LOC",
    "counties": "LOC",
    "country": "LOC",
    "continent": "LOC",
    "loc": "LOC",
    "organization": "ORG",
    "company": "ORG",
    "org": "ORG",
    "time": "DATE",
    "date": "DATE",
}
_TAG = re.compile(rf"\b({'|'.join(_TAGS)})\s*:")
_TAGGED = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


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
        message = f"map: expected mapping_dict to be a mapping, got {shorten(mapping_dict)}"
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
        return without_punctuation(text) if ignore_punctuation else text

    def apply(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        choices = [plain(choice.strip()) for choice in _choices(doc)]
        labels = label_list(len(choices))
        shown = {choice: f"({label})" for choice, label in zip(choices, labels, strict=True)}
        # The longest first: a choice may be the beginning of another.
        spelled = re.compile("|".join(sorted(map(re.escape, choices), key=len, reverse=True)))
        lettered = re.compile(rf":\s*({'|'.join(labels)})")
        bracketed = {label: f"({label})" for label in labels}

        def extract(text: Any) -> Any:
            return (
                find_match(pattern, text, group_select)
                or _shown(find_match(spelled, plain(text) if isinstance(text, str) else "", group_select), shown)
                or _shown(find_match(lettered, text, group_select), bracketed)
                or fallback
            )

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


def without_punctuation(text: str) -> str:
    """The text without the characters that Unicode calls punctuation."""
    return "".join(character for character in text if unicodedata.category(character)[0] != "P")


def _shown(match: str | None, labels: Mapping[str, str]) -> str | None:
    return labels.get(match, match) if match else match


def _choices(doc: Doc) -> Sequence[str]:
    choices = doc.get("choices")
    if isinstance(choices, list | tuple) and all(isinstance(choice, str) for choice in choices):
        return choices
    problem = f"it is {shorten(choices)}" if "choices" in doc else "there is none"
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
