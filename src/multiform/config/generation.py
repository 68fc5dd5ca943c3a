"""Arguments of generation and their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.formats import FormatConfig, OutputType
from multiform.requests import GENERATION_ALIASES, resolved_names


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
        given, own = resolved_names(given), resolved_names(own)
        # Where a task's own prompt ends says nothing about where this format's does.
        kept = {key: value for key, value in given.items() if key != "until"}
        return _typed({**greedy, **kept, "until": form.until(), **own})
    if not given:
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [fewshot_delimiter]}
    resolved = resolved_names(given)
    return _typed({**resolved, "until": resolved.get("until", [fewshot_delimiter])})


def generation_overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of generation that a run sets over those of its tasks, checked, each under its one name.

    >>> generation_overrides({"max_tokens": 8, "stop": "."})
    {'max_gen_toks': 8, 'until': ['.']}
    """
    check_generation(given)
    for name, aliases in GENERATION_ALIASES.items():
        twice = [alias for alias in aliases if alias in given]
        if len(twice) > 1:
            what = f"{' and '.join(twice)} mean the same"
            raise ConfigError(what, where=f"generation_kwargs.{name}", hint=f"give {name} alone")
    overrides = resolved_names(given)
    if isinstance(overrides.get("until"), str):
        overrides["until"] = [overrides["until"]]
    return overrides


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
    **dict.fromkeys(GENERATION_ALIASES["until"], (_are_stops, "a string or a list of strings, none of them empty")),
    **dict.fromkeys(GENERATION_ALIASES["max_gen_toks"], _COUNT),
    "temperature": (_is_temperature, "a number of 0 or more"),
    "do_sample": (lambda value: value in (True, False), "true or false"),
}


def _typed(kwargs: dict[str, Any]) -> dict[str, Any]:
    if "temperature" in kwargs:
        kwargs["temperature"] = float(kwargs["temperature"])
    if isinstance(kwargs["until"], str):
        kwargs["until"] = [kwargs["until"]]
    return kwargs
