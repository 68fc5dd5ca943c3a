"""Generation arguments: defaults, overrides and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.formats import FormatConfig, OutputType
from multiform.requests import GENERATION_ALIASES, resolved_names


def generation_defaults(
    kwargs: Mapping[str, Any], output_type: OutputType, fewshot_delimiter: str, format: FormatConfig | None
) -> dict[str, Any]:
    """The generation arguments of a task: the format's override the task's, and these override greedy defaults.

    >>> generation_defaults({}, "generate_until", "\\n\\n", None)
    {'temperature': 0.0, 'do_sample': False, 'max_gen_toks': 256, 'until': ['\\n\\n']}
    """
    if output_type != "generate_until":
        return dict(kwargs)
    check_generation(kwargs)
    if format is not None:
        greedy = {"temperature": 0.0, "do_sample": False, "max_gen_toks": format.default_max_gen_toks}
        format_kwargs = dict(format.generation_kwargs or {})
        check_generation(format_kwargs)
        kwargs, format_kwargs = resolved_names(kwargs), resolved_names(format_kwargs)
        # The task's stop sequences were written for its own prompt, not for this format's.
        task_kwargs = {key: value for key, value in kwargs.items() if key != "until"}
        return _typed({**greedy, **task_kwargs, "until": format.until(), **format_kwargs})
    if not kwargs:
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [fewshot_delimiter]}
    resolved = resolved_names(kwargs)
    return _typed({**resolved, "until": resolved.get("until", [fewshot_delimiter])})


def generation_overrides(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Check the generation arguments with which a run overrides those of its tasks, and replace aliases.

    >>> generation_overrides({"max_tokens": 8, "stop": "."})
    {'max_gen_toks': 8, 'until': ['.']}
    """
    check_generation(kwargs)
    for name, aliases in GENERATION_ALIASES.items():
        twice = [alias for alias in aliases if alias in kwargs]
        if len(twice) > 1:
            message = f"{' and '.join(twice)} mean the same"
            raise ConfigError(message, where=f"generation_kwargs.{name}", hint=f"give {name} alone")
    overrides = resolved_names(kwargs)
    if isinstance(overrides.get("until"), str):
        overrides["until"] = [overrides["until"]]
    return overrides


def check_generation(kwargs: Mapping[str, Any]) -> None:
    """Raise a ConfigError for a generation argument with a value that no model can use.

    >>> check_generation({"max_gen_toks": 0})
    Traceback (most recent call last):
    multiform.errors.ConfigError: generation_kwargs.max_gen_toks: max_gen_toks is 0; give a whole number of 1 or more
    """
    for name, (right, expected) in _CHECKS.items():
        value = kwargs.get(name)
        if value is not None and not right(value):
            message = f"{name} is {shorten(value)}"
            raise ConfigError(message, where=f"generation_kwargs.{name}", hint=f"give {expected}")


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
