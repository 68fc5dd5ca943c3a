"""Arguments written as ``key=value,key=value``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from multiform.errors import UsageError, shorten

_HINT = "write key=value,key=value, or a JSON object where a value holds a comma"


def parse_arguments(given: str | Mapping[str, Any] | None, *, where: str) -> dict[str, Any]:
    """The arguments as a dict; a JSON object is read as such.

    >>> parse_arguments("pretrained=gpt2,trust_remote_code=false,max_length=512", where="--model_args")
    {'pretrained': 'gpt2', 'trust_remote_code': False, 'max_length': 512}
    >>> parse_arguments('{"until": [".", ","]}', where="--gen_kwargs")
    {'until': ['.', ',']}
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(key): value for key, value in given.items()}
    if not isinstance(given, str):
        raise UsageError(f"expected key=value, got {shorten(given)}", where=where, hint=_HINT)
    text = given.strip()
    if text.startswith("{"):
        return _parse_json(text, where)
    made: dict[str, Any] = {}
    for part in filter(str.strip, text.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise UsageError(f"expected key=value, got {shorten(part)}", where=where, hint=_HINT)
        if key in made:
            raise UsageError(f"'{key}' is given twice", where=where, hint="remove one of the two")
        made[key] = parse_value(value)
    return made


def _parse_json(text: str, where: str) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}", where=where, hint=_HINT) from error
    return made


def parse_value(text: str) -> Any:
    """Text as the number, bool or None that it spells, or as itself."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
