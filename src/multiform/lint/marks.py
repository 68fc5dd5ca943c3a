"""Marks around the parts of a text that come from a document, to distinguish them from the template's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: Characters that no text has: they are for private use.
_OPEN, _CLOSE = "\ue000", "\ue001"
_VALUE = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Literal:
    """Text of a template, between the texts of a document that stand before and after it."""

    before: str
    text: str
    after: str


def marked(value: Any) -> Any:
    """The value with marks around each of its texts, within the white space at its ends.

    White space stays outside, so that stripping has the same effect on a marked text.
    """
    return mapped(value, _mark)


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The value with a function applied to each of its texts, however nested; keys stay.

    >>> mapped({"q": "why", "choices": ["a", 2]}, str.upper)
    {'q': 'WHY', 'choices': ['A', 2]}
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value


def _mark(text: str) -> str:
    core = text.strip()
    start = text.index(core)
    return f"{text[:start]}{_OPEN}{core}{_CLOSE}{text[start + len(core) :]}"


def unmarked(text: str) -> str:
    """The text without marks."""
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def is_whole(text: str) -> bool:
    """Whether no text of the document was cut: every mark has its counterpart."""
    rest = _VALUE.sub("", text)
    return _OPEN not in rest and _CLOSE not in rest


def literals(text: str) -> Iterator[Literal]:
    """The parts of a marked text that are not from the document, with their neighbours.

    >>> [(part.before, part.text, part.after) for part in literals("Question: " + _mark("Why?") + "Answer:")]
    [('', 'Question: ', 'Why?'), ('Why?', 'Answer:', '')]
    """
    segments = _VALUE.split(text)
    values = ["", *segments[1::2], ""]
    for index, literal in enumerate(segments[::2]):
        yield Literal(values[index], literal, values[index + 1])


def values(text: str) -> list[str]:
    """The parts of a marked text that are from the document."""
    return _VALUE.findall(text)
