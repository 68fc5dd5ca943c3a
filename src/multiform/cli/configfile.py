"""`--config FILE`: the flags of a run in YAML."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.cli.parser import Arguments, Gather
from multiform.errors import ConfigError, UsageError, nearest, shorten
from multiform.run.values import read_samples
from multiform.tasks.parse import parse_yaml
from multiform.tasks.yaml import read_text

_NOT_IN_FILES = ("config", "help")


def merged(options: argparse.Namespace) -> argparse.Namespace:
    """The options, with values of the `--config` file where the command line does not set them."""
    if not options.config:
        return options
    path = Path(options.config)
    parsed = parse_yaml(read_text(path), path)
    if parsed.notes:
        raise parsed.notes[0]
    data, positions = parsed.data, parsed.positions
    if not isinstance(data, dict):
        raise ConfigError("expected a mapping of flags", where=f"{path}:1", hint="write e.g. 'tasks: quiz@all'")
    actions = _actions(options.parser)
    values = {}
    for key, value in data.items():
        place = str(positions.get((str(key),), f"{path}:1"))
        if key not in actions:
            hint = nearest(str(key), actions, listed="flags")
            raise ConfigError(f"unknown flag '{key}'", where=place, hint=hint)
        if value is not None:
            values[actions[key].dest] = _converted(actions[key], value, f"{place}: {key}")
    # The values of the file become defaults, which the command line overrides.
    options.parser.set_defaults(**values)
    merged_options: argparse.Namespace = options.parser.parse_args(options.arguments)
    return merged_options


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The flags by their long names, without the dashes."""
    return {
        name.removeprefix("--"): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and action.dest not in _NOT_IN_FILES
    }


def _converted(action: argparse.Action, value: Any, where: str) -> Any:
    """The value as the command line would convert it."""
    try:
        return _read(action, value, where)
    except UsageError as error:
        raise error.as_kind(ConfigError, where) from error
    except ValueError as error:
        raise ConfigError(f"{error}", where=where, hint="see multiform run --help") from error


def _read(action: argparse.Action, value: Any, where: str) -> Any:
    if isinstance(action, Arguments):
        return parse_arguments(_mapping(value, where), where=where)
    if isinstance(action, Gather) or action.nargs == "+":
        words = [_text(item, where) for item in (value if isinstance(value, list) else [value])]
        return action.gathered(None, words) if isinstance(action, Gather) else words
    if action.dest == "samples":
        return read_samples(_mapping(value, where))
    if action.nargs == 0:
        return _boolean(value, where)
    if action.dest == "seeds" and isinstance(value, list):
        value = ",".join(map(str, value))
    if action.dest == "cache_requests":
        value = _caching(value)
    if action.const is True and isinstance(value, bool):  # a flag that may also stand alone
        return value
    text = _text(value, where)
    return action.type(text) if callable(action.type) and text else text or None


def _caching(value: Any) -> Any:
    """The value of `cache_requests` as a word, also from a boolean or from lm-eval's three booleans."""
    if isinstance(value, dict):
        names = {"delete": "delete_requests_cache", "refresh": "rewrite_requests_cache", "true": "cache_requests"}
        return next((word for word, name in names.items() if value.get(name)), "")
    return {True: "true", False: ""}.get(value, value) if isinstance(value, bool) else value


def _text(value: Any, where: str) -> str:
    """A string or number as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(
            f"expected text or a number, got {shorten(value)}", where=where, hint="see multiform run --help"
        )
    return str(value)


def _mapping(value: Any, where: str) -> Any:
    if not isinstance(value, str | dict):
        raise ConfigError(f"expected a mapping, got {shorten(value)}", where=where, hint="write e.g. {key: value}")
    return value


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"expected true or false, got {shorten(value)}", where=where, hint="write true or false")
    return value
