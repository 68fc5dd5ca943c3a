"""Filters that change the text of each response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.scoring.filters.base import Filter, register_filter

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
