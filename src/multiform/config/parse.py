"""Parsing one YAML document: its data, the position of every key, and what is odd about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from multiform.config.functions import FunctionRef
from multiform.config.source import KeyPath, Position, display
from multiform.config.syntax import explained
from multiform.errors import ConfigError, shorten

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Plain data, where each of its keys stands, and notes: errors that need not stop anybody."""

    data: Any
    positions: dict[KeyPath, Position]
    notes: tuple[ConfigError, ...] = ()


def parse_yaml(text: str, path: Path) -> Parsed:
    """Parse the one document of a text."""
    loader = None
    node = None
    try:
        loader = _Loader(text.removeprefix("\ufeff"))
        loader.path, loader.notes = path, []
        node = loader.get_single_node()
        if node is None:
            return Parsed(None, {})
        positions = dict(_positions(node, path, set()))
        return Parsed(loader.construct_document(node), positions, tuple(loader.notes))
    except yaml.YAMLError as error:
        raise explained(error, text, path) from error
    except (ValueError, AttributeError) as error:  # a date or number that there is not, such as 2024-13-45
        place = Position(path, _unreadable(_Loader(""), node) or 1)
        what = f"a value cannot be read: {' '.join(str(error).split())}"
        raise ConfigError(what, where=str(place), hint="quote it to make it a string") from error
    except RecursionError as error:
        raise ConfigError("too deeply nested", where=display(path), hint="flatten the file") from error
    finally:
        if loader is not None:
            loader.dispose()


class _Loader(_BASE):  # type: ignore[misc]
    """A safe loader of one file: `!function` is relative to it, a repeated key is noted."""

    path: Path
    notes: list[ConfigError]


def _function(loader: Any, node: Any) -> FunctionRef:
    name = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else _items(node)
    position = Position(loader.path, node.start_mark.line + 1)
    if not re.fullmatch(r"\w+(\.\w+)+", str(name)):
        raise ConfigError(
            f"!function expects module.name, got {shorten(name)}",
            where=str(position),
            hint="write e.g. !function utils.process_docs, with utils.py beside this file",
        )
    return FunctionRef(str(name), loader.path.parent, position)


def _mapping(loader: Any, node: Any) -> dict[Any, Any]:
    _check_keys(loader, node)
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor("!function", _function)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _check_keys(loader: Any, node: Any) -> None:
    """Refuse keys that are not plain words; note keys that are given twice, of which the last one counts."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key, yaml.MappingNode) and node.flow_style and key.flow_style:
            what = "not valid YAML: a value that begins with '{{' is read as a mapping"
            hint = 'put the template in quotes, e.g. "{{question}}"'
            raise ConfigError(what, where=str(Position(loader.path, line)), hint=hint)
        if not isinstance(key, yaml.ScalarNode):
            place = str(Position(loader.path, line))
            raise ConfigError("not valid YAML: a key is not a word", where=place, hint="write key: value")
        if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
            what = f"the key '{key.value}' is given twice (first on line {seen[key.value]}), and this one counts"
            place = str(Position(loader.path, line))
            loader.notes.append(ConfigError(what, where=place, hint="remove one of the two"))
        seen[key.value] = line


def _positions(node: Any, path: Path, seen: set[int], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Position]]:
    yield prefix, Position(path, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode) or id(node) in seen:  # what an alias repeats stands elsewhere
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*prefix, str(key.value))
            yield from _positions(value, path, seen, inner)
            yield inner, Position(path, key.start_mark.line + 1)
    else:
        for index, item in enumerate(node.value):
            yield from _positions(item, path, seen, (*prefix, index))


def _items(node: Any) -> list[Any]:
    return [getattr(item, "value", item) for item in node.value]


def _unreadable(loader: Any, node: Any) -> int | None:
    """The line of the first value that cannot be read."""
    if isinstance(node, yaml.ScalarNode):
        try:
            loader.construct_object(node)
        except (ValueError, AttributeError):
            return int(node.start_mark.line) + 1
        return None
    parts = [part for item in getattr(node, "value", ()) for part in (item if isinstance(item, tuple) else (item,))]
    return next((line for part in parts if (line := _unreadable(loader, part))), None)
