"""The registry of rules, and the check of one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from multiform.deadline import MAX_SECONDS, within
from multiform.errors import DataError, nearest
from multiform.registry import Registry

#: Takes the response and the rule's arguments by name; `prompt` is the prompt, where a rule has such an argument.
Rule = Callable[..., bool]

rules: Registry[Rule] = Registry("rule")
register_rule = rules.register


def follows(name: str, text: str, arguments: Mapping[str, Any] | None = None, prompt: str = "") -> bool:
    """Whether a response follows a rule; arguments that are null are not given, and an empty response follows none.

    >>> follows("punctuation:no_comma", "No, never."), follows("keywords:existence", "Ada", {"keywords": ["ada"]})
    (False, True)
    """
    if name not in rules:
        raise DataError(f"unknown rule '{name}'", hint=nearest(name, list(rules), listed="rules"))
    rule = rules.get(name)
    parameters = list(inspect.signature(rule).parameters)[1:]
    given = {key: _whole(value) for key, value in (arguments or {}).items() if value is not None}
    if "prompt" in parameters:
        given["prompt"] = prompt
    wanted = [key for key in parameters if key not in given]
    unknown = [key for key in given if key not in parameters]
    if wanted or unknown:
        problem = f"has no argument '{unknown[0]}'" if unknown else f"needs the argument '{wanted[0]}'"
        raise DataError(f"rule '{name}' {problem}", hint="check the column of arguments")
    with within(MAX_SECONDS):
        return bool(text.strip()) and rule(text, **given)


def _whole(value: Any) -> Any:
    """Numbers that tables have turned into floats as integers again."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
