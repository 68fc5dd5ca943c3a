"""`--config FILE`: the flags of a run in YAML."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from multiform.config.yaml import parse_yaml, read_text
from multiform.errors import ConfigError, nearest

_NOT_IN_FILES = ("command", "execute", "parser", "config", "version")


def merged(options: argparse.Namespace) -> argparse.Namespace:
    """The options with those of the file where the command line gives none."""
    if not options.config:
        return options
    path = Path(options.config)
    data, positions = parse_yaml(read_text(path), path)
    if not isinstance(data, dict):
        raise ConfigError("expected a mapping of flags", where=f"{path}:1", hint="write e.g. 'tasks: quiz@all'")
    known = [name for name in vars(options) if name not in _NOT_IN_FILES]
    for key, value in data.items():
        if key not in known:
            raise ConfigError(
                f"unknown flag '{key}'", where=str(positions[(key,)]), hint=nearest(str(key), known, listed="flags")
            )
        if getattr(options, key) == options.parser.get_default(key):
            setattr(options, key, _converted(options.parser, key, value, str(positions[(key,)])))
    return options


def _converted(parser: argparse.ArgumentParser, key: str, value: Any, where: str) -> Any:
    """The value as the command line would have read it."""
    if key in ("tasks", "include_path"):
        return value if isinstance(value, list) else [value]
    action = next(action for action in parser._actions if action.dest == key)
    if isinstance(value, dict | list) or value is None or not callable(action.type):
        return value
    try:
        return action.type(str(value))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise ConfigError(f"{key}: {error}", where=where, hint="see multiform run --help") from error
