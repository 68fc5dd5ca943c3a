"""Filters that extract a prediction from the text with regular expressions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import DataError, shorten
from multiform.fields import Doc
from multiform.labels import label_list
from multiform.scoring.filters.base import Filter, register_filter
from multiform.scoring.filters.text import each

#: The result at the end of GSM8K's solutions.
DEFAULT_PATTERN = r"#### (\-?[0-9\.\,]+)"
INVALID = "[invalid]"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")


@register_filter("regex")
def regex(regex_pattern: str = DEFAULT_PATTERN, group_select: int = 0, fallback: Any = INVALID) -> Filter:
    """Extracts a match of a regular expression; `group_select` is the index of the match, -1 for the last."""
    if not isinstance(group_select, int):
        raise TypeError(f"group_select is {group_select!r}, not a whole number")
    pattern = re.compile(regex_pattern)

    def find(text: Any) -> Any:
        match = found(pattern, text, group_select, empty=fallback)
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

        def read(text: Any) -> Any:
            return (
                found(pattern, text, group_select)
                or _shown(found(spelled, plain(text) if isinstance(text, str) else "", group_select), shown)
                or _shown(found(lettered, text, group_select), bracketed)
                or fallback
            )

        return [read(text) for text in outputs]

    return apply


def found(pattern: re.Pattern[str], text: Any, group_select: int = 0, *, empty: Any = "") -> Any:
    """A match of a pattern, stripped, or its first group that is not empty; None where there is no such match.

    >>> found(re.compile(r"(yes)|(no)"), "yes or no", -1), found(re.compile("x"), "y") is None
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
