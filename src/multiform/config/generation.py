"""Arguments of generation and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
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
        greedy = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256}
        own = dict(form.generation_kwargs or {})
        kept = {key: value for key, value in given.items() if key != "until"}
        return _typed({**greedy, **kept, "until": form.until(), **own})
    if not given:
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [fewshot_delimiter]}
    return _typed({**given, "until": given.get("until", [fewshot_delimiter])})


def check_generation(given: Mapping[str, Any]) -> None:
    """Refuse values that no model could use."""
    until = given.get("until")
    texts = until if isinstance(until, list | tuple) else [until]
    if until is not None and not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"until: expected a string or a list of strings, got {shorten(until)}")
    for name in ("max_gen_toks", "max_new_tokens", "max_tokens"):
        value = given.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigError(f"{name}: expected a whole number of 1 or more, got {shorten(value)}")
    temperature = given.get("temperature")
    if temperature is not None and (not isinstance(temperature, int | float) or temperature < 0):
        raise ConfigError(f"temperature: expected a number of 0 or more, got {shorten(temperature)}")


def _typed(kwargs: dict[str, Any]) -> dict[str, Any]:
    if "temperature" in kwargs:
        kwargs["temperature"] = float(kwargs["temperature"])
    if isinstance(kwargs["until"], str):
        kwargs["until"] = [kwargs["until"]]
    return kwargs
