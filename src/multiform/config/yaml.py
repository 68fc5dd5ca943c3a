"""Reading YAML task files: `include`, `!function`, and the position of every key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from multiform.config.functions import FunctionRef
from multiform.config.source import KeyPath, Position, Source, display
from multiform.config.syntax import explained
from multiform.errors import ConfigError, nearest, shorten

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Keys that an included file does not hand on.
_NOT_INCLUDED = ("task_list",)


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The merged content of a task file and what it includes."""

    data: dict[str, Any]
    source: Source


def read_yaml(path: Path) -> YamlFile:
    """Read a task file with its includes: later includes win over earlier ones, the file over all."""
    try:
        resolved = path.resolve()
    except (OSError, ValueError):  # no file can have that name, which reading it says
        resolved = path
    return _read(resolved, chain=())


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[KeyPath, Position]]:
    """Parse one document into plain data and the positions of its keys."""
    loader = None
    node = None
    try:
        loader = _loader_class(path)(text.removeprefix("\ufeff"))
        node = loader.get_single_node()
        if node is None:
            return None, {}
        positions = dict(_positions(node, path, set()))
        return loader.construct_document(node), positions
    except yaml.YAMLError as error:
        raise explained(error, text, path) from error
    except (ValueError, AttributeError) as error:  # a date or number that there is not, such as 2024-13-45
        place = Position(path, _unreadable(_loader_class(path)(""), node) or 1)
        what = f"a value cannot be read: {' '.join(str(error).split())}"
        raise ConfigError(what, where=str(place), hint="quote it to make it a string") from error
    except RecursionError as error:
        raise ConfigError("too deeply nested", where=display(path), hint="flatten the file") from error
    finally:
        if loader is not None:
            loader.dispose()


def read_text(path: Path) -> str:
    """The text of a file, or a ConfigError that says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=display(path), hint=_file_hint(path, "*.y*ml")) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        what = f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise ConfigError(what, where=str(Position(path, line)), hint="save the file as UTF-8") from error
    except (OSError, ValueError) as error:
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(what, where=display(path), hint="check its path and rights") from error


def _read(path: Path, chain: tuple[Path, ...]) -> YamlFile:
    data, positions = parse_yaml(read_text(path), path)
    if not isinstance(data, dict):
        got = "an empty file" if data is None else "a list" if isinstance(data, list) else shorten(data)
        raise ConfigError(
            f"expected a mapping of task fields, got {got}",
            where=f"{display(path)}:1",
            hint="start with 'task: name'",
        )
    source = Source(path, positions)
    names = _include_list(data.pop("include", None), source)
    includes = [_included(name, place, path, chain) for name, place in names]
    merged: dict[str, Any] = {}
    for included in includes:
        merged |= {key: value for key, value in included.data.items() if key not in _NOT_INCLUDED}
    return YamlFile(merged | data, source.over([included.source for included in includes]))


def _include_list(value: Any, source: Source) -> list[tuple[str, str]]:
    """The included names, each with its place in the file."""
    items = [] if value is None else value if isinstance(value, list) else [value]
    placed = [(item, f"{source.at('include', index)}: include") for index, item in enumerate(items)]
    for item, place in placed:
        if not isinstance(item, str) or not item.strip():
            what = f"expected a file name or a list of them, got {shorten(item)}"
            raise ConfigError(what, where=place, hint="write e.g. include: common.yaml")
    return placed


def _included(name: str, place: str, path: Path, chain: tuple[Path, ...]) -> YamlFile:
    try:
        target = (path.parent / name).resolve()
        found = target.is_file()
    except (OSError, ValueError) as error:
        raise ConfigError(f"no file {shorten(name)}: {error}", where=place, hint="check the name") from error
    if target.is_dir():
        raise ConfigError(f"'{name}' is a folder", where=place, hint="name a file in it")
    if not found:
        raise ConfigError(f"no file '{name}'", where=place, hint=_file_hint(target, "*"))
    chain = (*chain, path)
    if target in chain:
        loop = " -> ".join(p.name for p in (*chain[chain.index(target) :], target))
        raise ConfigError(f"include cycle: {loop}", where=place, hint="remove one of these includes")
    return _read(target, chain)


def _file_hint(path: Path, pattern: str) -> str:
    """The file that may be meant, or those that are there."""
    if not path.parent.is_dir():
        return f"there is no folder {display(path.parent)}"
    siblings = [p.name for p in path.parent.glob(pattern) if p.is_file()]
    return nearest(path.name, siblings, listed=f"the files in {display(path.parent)} are")


def _loader_class(path: Path) -> Any:
    class Loader(_BASE):  # type: ignore[misc]
        """A safe loader for one file: `!function` is relative to it, a repeated key is an error."""

    def function(loader: Any, node: Any) -> FunctionRef:
        name = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else _items(node)
        position = Position(path, node.start_mark.line + 1)
        if not re.fullmatch(r"\w+(\.\w+)+", str(name)):
            raise ConfigError(
                f"!function expects module.name, got {shorten(name)}",
                where=str(position),
                hint="write e.g. !function utils.process_docs, with utils.py beside this file",
            )
        return FunctionRef(str(name), path.parent, position)

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        _check_keys(node, path)
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    Loader.add_constructor("!function", function)
    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader


def _check_keys(node: Any, path: Path) -> None:
    """Refuse keys that are not plain words, and keys that are given twice."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        place = str(Position(path, line))
        if isinstance(key, yaml.MappingNode) and node.flow_style and key.flow_style:
            what = "not valid YAML: a value that begins with '{{' is read as a mapping"
            raise ConfigError(what, where=place, hint='put the template in quotes, e.g. "{{question}}"')
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError("not valid YAML: a key is not a word", where=place, hint="write key: value")
        if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
            what = f"the key '{key.value}' is given twice (first on line {seen[key.value]})"
            raise ConfigError(what, where=place, hint="remove one of the two")
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
