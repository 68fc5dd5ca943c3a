"""Arguments written as ``key=value,key=value``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from multiform.errors import UsageError, shorten


def parse_arguments(given: str | Mapping[str, Any] | None, *, where: str) -> dict[str, Any]:
    """The arguments as a dict; a JSON object is read as such.

    >>> parse_arguments("pretrained=gpt2,trust_remote_code=false,max_length=512", where="--model_args")
    {'pretrained': 'gpt2', 'trust_remote_code': False, 'max_length': 512}
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    text = given.strip()
    if text.startswith("{"):
        try:
            made = json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"not valid JSON: {error}", where=where, hint="write key=value,key=value") from error
        return dict(made)
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for key, equals, _ in pairs:
        if not equals or not key.strip():
            raise UsageError(f"expected key=value, got {shorten(key)}", where=where, hint="write key=value,key=value")
    return {key.strip(): parse_value(value.strip()) for key, _, value in pairs}


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
