"""The filters of templates beside those of Jinja: lm-eval's, and those that formats are written with."""

from __future__ import annotations

import ast
import html
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from threading import current_thread, main_thread
from typing import Any

from multiform.errors import DataError, excerpt
from multiform.labels import (
    answer_key_to_index,
    choice_list,
    gold_index,
    gold_label,
    gold_text,
    index_among,
    join_words,
    label_list,
)
from multiform.limits import spend


def _findall(text: str, pattern: str) -> list[str]:
    """All matches of a regular expression."""
    _spend_search(text)
    return [match[0] for match in re.finditer(pattern, text)]


def _boxed_answer(text: str) -> str:
    """What the last ``\\boxed{...}`` of a solution holds."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    opening = text.find("{", start)
    if start < 0 or opening < 0:
        hint = "use the filter on solutions that box their answer"
        raise DataError(f"no \\boxed{{...}} in {excerpt(text)}", hint=hint)
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[opening + 1 : position]
    raise DataError(f"a brace is not closed in {excerpt(text[start:])}", hint="check the solution")


def _spend_search(text: str) -> None:
    """Count what a search may cost.

    Python looks at the clock after 4,096 starts of a search, each of which may take as long as the text, and only in
    the main thread: elsewhere, a child process has to.
    """
    spend(20 * len(text) if current_thread() is main_thread() or not hasattr(os, "fork") else 10**9)


def _regex_replace(text: str, pattern: str, repl: str, count: int = 0) -> str:
    def expand(match: re.Match[str]) -> str:
        replacement = match.expand(repl)
        spend(len(replacement))
        return replacement

    _spend_search(text)
    return re.sub(pattern, expand, text, count=count)


def _answer_key_to_index(key: object, labels: Sequence[str] | None = None) -> int:
    """The 0-based index of a key: its place in `labels`, or of a letter or 1-based digit."""
    return answer_key_to_index(str(key)) if labels is None else list(map(str, labels)).index(str(key).strip())


def _parsing_filter(parse: Callable[[str], Any], expected: str, columns: str) -> Callable[[Any], Any]:
    """A filter that parses the text of a column, and leaves other values as they are."""

    def parse_text(text: Any) -> Any:
        try:
            return parse(text.strip()) if isinstance(text, str) else text
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            hint = f"use the filter on columns with {columns} only"
            raise DataError(f"not {expected}: {excerpt(text)}", hint=hint) from error

    return parse_text


def _indexes(values: Sequence[Any], value: Any) -> list[int]:
    """Where a list has the value, such as the 1 of right answers in a list of labels."""
    return [index for index, item in enumerate(values) if item == value]


def _shuffle(values: Sequence[Any], seed: Any) -> list[Any]:
    """The values in an order that depends on the seed alone, which may be a text of the document."""
    order = list(values)
    random.Random(seed).shuffle(order)
    return order


def _mend_encoding(text: str) -> str:
    """UTF-8 that was read as Latin-1 ("Ã±") read again as UTF-8 ("ñ"); other texts as they are."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _over_choices(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda answer, choices, *labels, **base: function(answer, choice_list(choices), *labels, **base)


def _lead(text: str, separator: str) -> str:
    """A text with the separator after it, unless it is empty or ends in white space."""
    return text if not text or text[-1].isspace() or text.endswith(separator) else text + separator


FILTERS: Mapping[str, Callable[..., Any]] = {
    "regex_replace": _regex_replace,
    "answer_key_to_index": _answer_key_to_index,
    "choice_list": choice_list,
    "literal": _parsing_filter(ast.literal_eval, "a list or mapping as text", "lists as text"),
    "shuffle": _shuffle,
    "findall": _findall,
    "boxed": _boxed_answer,
    "indexes": _indexes,
    "mend_encoding": _mend_encoding,
    "unescape": html.unescape,
    "from_json": _parsing_filter(json.loads, "JSON", "JSON"),
    "values": lambda mapping: list(mapping.values()),
    "gold_index": _over_choices(gold_index),
    "gold_label": _over_choices(gold_label),
    "gold_text": _over_choices(gold_text),
    "index_among": index_among,
    "labels": label_list,
    "join_words": join_words,
    "lead": _lead,
}
