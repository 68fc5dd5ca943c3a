"""Arguments of generation and their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.formats import FormatConfig, OutputType


def generation_defaults(
    given: Mapping[str, Any], output_type: OutputType, fewshot_delimiter: str, form: FormatConfig | None
) -> dict[str, Any]:
    """The generation arguments of a task: a format's over the task's over greedy defaults.

    >>> generation_defaults({}, "generate_until", "\\n\\n", None)
    {'temperature': 0.0, 'do_sample': False, 'max_gen_toks': 256, 'until': ['\\n\\n']}
    """
    if output_type != "generate_until":
        return dict(given)
    check_generation(given)
    if form is not None:
        greedy = {"temperature": 0.0, "do_sample": False, "max_gen_toks": form.default_max_gen_toks}
        own = dict(form.generation_kwargs or {})
        check_generation(own)
        # Where a task's own prompt ends says nothing about where this format's does.
        kept = {key: value for key, value in given.items() if key != "until"}
        return _typed({**greedy, **kept, "until": form.until(), **own})
    if not given:
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [fewshot_delimiter]}
    return _typed({**given, "until": given.get("until", [fewshot_delimiter])})


def check_generation(given: Mapping[str, Any]) -> None:
    """Refuse values that no model could use.

    >>> check_generation({"max_gen_toks": 0})
    Traceback (most recent call last):
    multiform.errors.ConfigError: generation_kwargs.max_gen_toks: max_gen_toks is 0; give a whole number of 1 or more
    """
    for name, (right, expected) in _CHECKS.items():
        value = given.get(name)
        if value is not None and not right(value):
            what = f"{name} is {shorten(value)}"
            raise ConfigError(what, where=f"generation_kwargs.{name}", hint=f"give {expected}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_temperature(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_stops(value: Any) -> bool:
    texts = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(text, str) and text != "" for text in texts)


_COUNT = (_is_count, "a whole number of 1 or more")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "until": (_are_stops, "a string or a list of strings, none of them empty"),
    "max_gen_toks": _COUNT,
    "max_new_tokens": _COUNT,
    "max_tokens": _COUNT,
    "temperature": (_is_temperature, "a number of 0 or more"),
    "do_sample": (lambda value: value in (True, False), "true or false"),
}


def _typed(kwargs: dict[str, Any]) -> dict[str, Any]:
    if "temperature" in kwargs:
        kwargs["temperature"] = float(kwargs["temperature"])
    if isinstance(kwargs["until"], str):
        kwargs["until"] = [kwargs["until"]]
    return kwargs
