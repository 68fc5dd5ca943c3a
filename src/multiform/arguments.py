"""Arguments written as ``key=value,key=value``, and lists of names."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from multiform.errors import UsageError, shorten

_HINT = "write key=value,key=value, or a JSON object where a value holds a comma"


def parse_arguments(text_or_mapping: str | Mapping[str, Any] | None, *, where: str) -> dict[str, Any]:
    """The arguments as a dict; a JSON object is read as such.

    >>> parse_arguments("pretrained=gpt2,trust_remote_code=false,max_length=512", where="--model_args")
    {'pretrained': 'gpt2', 'trust_remote_code': False, 'max_length': 512}
    >>> parse_arguments('{"until": [".", ","]}', where="--gen_kwargs")
    {'until': ['.', ',']}
    >>> parse_arguments('stop=["a, b", "c"],lengths=[4096,8192]', where="--gen_kwargs")
    {'stop': ['a, b', 'c'], 'lengths': [4096, 8192]}
    """
    if text_or_mapping is None:
        return {}
    if isinstance(text_or_mapping, Mapping):
        return {str(key): value for key, value in text_or_mapping.items()}
    if not isinstance(text_or_mapping, str):
        raise UsageError(f"expected key=value, got {shorten(text_or_mapping)}", where=where, hint=_HINT)
    text = text_or_mapping.strip()
    if text.startswith("{"):
        return _parse_json(text, where)
    arguments: dict[str, Any] = {}
    for part in split_outside(text, ",", brackets="[({])}", quotes="\"'"):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise UsageError(f"expected key=value, got {shorten(part)}", where=where, hint=_HINT)
        if key in arguments:
            raise UsageError(f"'{key}' is given twice", where=where, hint="remove one of the two")
        arguments[key] = parse_value(value)
    return arguments


def _parse_json(text: str, where: str) -> dict[str, Any]:
    try:
        arguments: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}", where=where, hint=_HINT) from error
    if not isinstance(arguments, dict):
        raise UsageError(f"expected a JSON object, got {shorten(arguments)}", where=where, hint=_HINT)
    return arguments


def parse_value(text: str) -> Any:
    """Text as the number, bool, None, list, dict or quoted text that it spells, or as itself.

    >>> parse_value("[1, 2]"), parse_value("'a'"), parse_value("1e-3"), parse_value("[unfinished")
    ([1, 2], 'a', 0.001, '[unfinished')
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if text[:1] in ("[", "(", "{", '"', "'"):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(text)
    return text


def split_outside(text: str, separator: str, *, brackets: str = "[]", quotes: str = "") -> list[str]:
    """The parts between separators, not counting those inside brackets and quoted values; parts without text are left
    out.

    >>> split_outside("a@mcqa[labels=roman,sep=space],b", ",")
    ['a@mcqa[labels=roman,sep=space]', 'b']
    """
    half = len(brackets) // 2
    parts, depth, start, quote, before = [], 0, 0, "", ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in quotes and (depth or before in "="):  # elsewhere it is an apostrophe
            quote = character
        elif character in brackets:
            depth = depth + 1 if character in brackets[:half] else max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
        before = character
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]
