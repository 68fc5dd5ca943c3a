"""Arguments: written as ``key=value,key=value``, or of the functions and methods that users define."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from multiform.errors import ConfigError, UsageError, excerpt

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
        raise UsageError(f"expected key=value, got {excerpt(text_or_mapping)}", where=where, hint=_HINT)
    text = text_or_mapping.strip()
    arguments: dict[str, Any] = {}
    if text.startswith("{"):
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not valid JSON: {error}", where=where, hint=_HINT) from error
        return arguments
    for part in split_outside(text, ",", brackets="[({])}", quotes="\"'"):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise UsageError(f"expected key=value, got {excerpt(part)}", where=where, hint=_HINT)
        if key in arguments:
            raise UsageError(f"'{key}' is given twice", where=where, hint="remove one of the two")
        arguments[key] = parse_value(value)
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


# User-defined functions: what keeps them from being called, and what they override.


def name_of(function: Any) -> str:
    """What to call a function, class or callable object in a message.

    >>> name_of(len), name_of(partial(max, 0))
    ('len', 'max')
    """
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None) or type(inner).__name__)


def mismatch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Why a function cannot be called with these arguments; None if it can, or if nobody knows.

    >>> mismatch(lambda values: 1.0, [])
    >>> mismatch(lambda: 1.0, [])
    'too many positional arguments'
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have no signature
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def check_call(
    function: Callable[..., Any], *args: Any, what: str, hint: str, where: str | None = None, **kwargs: Any
) -> None:
    """Raise a ConfigError that begins with `what` if a function cannot be called with these arguments."""
    problem = mismatch(function, *args, **kwargs)
    if problem is not None:
        raise ConfigError(f"{what}: {problem}", where=where, hint=hint)


def accepted_arguments(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the named arguments that a function takes.

    >>> accepted_arguments(lambda doc, doc_id: None, {"doc_id": 3, "metadata": None})
    {'doc_id': 3}
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return dict(options)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(options)
    named = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return {key: value for key, value in options.items() if key in named}


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of that name."""
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):  # some builtins have no signature
        return False


def overridden_methods(cls: type, base: type, names: Iterable[str]) -> dict[str, type]:
    """Those of the names that a subclass defines anew, each with the class that defines it.

    >>> class Base:
    ...     def first(self): ...
    ...     def second(self): ...
    >>> class Derived(Base):
    ...     def second(self): ...
    >>> list(overridden_methods(Derived, Base, ["first", "second", "third"]))
    ['second']
    """
    definers = {name: next((each for each in cls.__mro__ if name in each.__dict__), None) for name in names}
    return {name: each for name, each in definers.items() if each is not None and each not in base.__mro__}
