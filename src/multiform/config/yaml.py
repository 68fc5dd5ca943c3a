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
    return _read(path.resolve(), chain=())


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[KeyPath, Position]]:
    """Parse one document into plain data and the positions of its keys."""
    loader = _loader_class(path)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        positions = dict(_positions(node, path))
        return loader.construct_document(node), positions
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = f"not valid YAML: {error.problem or error.context}"
        raise ConfigError(what, where=str(Position(path, line)), hint="check indentation and quotes") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {_flat(error)}", where=display(path), hint="save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        what = f"a value cannot be read: {_flat(error)}"
        raise ConfigError(what, where=display(path), hint="quote it to make it a string") from error
    finally:
        loader.dispose()


def _read(path: Path, chain: tuple[Path, ...]) -> YamlFile:
    if path in chain:
        loop = " -> ".join(p.name for p in (*chain[chain.index(path) :], path))
        raise ConfigError(f"include cycle: {loop}", where=display(chain[-1]), hint="remove one of these includes")
    data, positions = parse_yaml(read_text(path), path)
    if not isinstance(data, dict):
        got = "an empty file" if data is None else f"a {type(data).__name__}"
        raise ConfigError(
            f"expected a mapping of task fields, got {got}",
            where=f"{display(path)}:1",
            hint="start with 'task: name'",
        )
    source = Source(path, positions)
    includes = [_included(item, path, source, chain) for item in _include_list(data.pop("include", None), source)]
    merged: dict[str, Any] = {}
    for included in includes:
        merged |= {key: value for key, value in included.data.items() if key not in _NOT_INCLUDED}
    return YamlFile(merged | data, source.over([included.source for included in includes]))


def read_text(path: Path) -> str:
    """The text of a file, or a ConfigError that says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        siblings = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        raise ConfigError(
            "no such file", where=display(path), hint=nearest(path.name, siblings, listed="files here")
        ) from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        what = f"not UTF-8: byte 0x{path.read_bytes()[error.start]:02x} at offset {error.start}"
        raise ConfigError(what, where=str(Position(path, line)), hint="save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=display(path), hint="check its path and rights"
        ) from error


def _include_list(value: Any, source: Source) -> list[str]:
    items = [] if value is None else value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise ConfigError(
                f"include: expected a file name or a list of them, got {shorten(item)}",
                where=str(source.at("include")),
            )
    return items


def _included(name: str, path: Path, source: Source, chain: tuple[Path, ...]) -> YamlFile:
    target = (path.parent / name).resolve()
    if not target.is_file():
        siblings = [p.name for p in target.parent.glob("*")] if target.parent.is_dir() else []
        raise ConfigError(
            f"include: no file '{name}'",
            where=str(source.at("include")),
            hint=nearest(target.name, siblings, listed=f"files in {display(target.parent)}"),
        )
    return _read(target, (*chain, path))


def _loader_class(path: Path) -> Any:
    class Loader(_BASE):  # type: ignore[misc]
        """A safe loader for one file: `!function` is relative to it, a repeated key is an error."""

    def function(loader: Any, node: Any) -> FunctionRef:
        name = loader.construct_scalar(node)
        position = Position(path, node.start_mark.line + 1)
        if not re.fullmatch(r"\w+(\.\w+)+", str(name)):
            raise ConfigError(
                f"!function expects module.name, got {shorten(name)}",
                where=str(position),
                hint="write e.g. !function utils.process_docs",
            )
        return FunctionRef(str(name), path.parent, position)

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag != "tag:yaml.org,2002:merge" and key_node.value in seen:
                raise ConfigError(
                    f"the key '{key_node.value}' is given twice (first on line {seen[key_node.value]})",
                    where=str(Position(path, line)),
                    hint="remove one of the two",
                )
            if isinstance(key_node.value, str):
                seen[key_node.value] = line
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    Loader.add_constructor("!function", function)
    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader


def _positions(node: Any, path: Path, prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Position]]:
    yield prefix, Position(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*prefix, str(key.value))
            yield from _positions(value, path, inner)
            yield inner, Position(path, key.start_mark.line + 1)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _positions(item, path, (*prefix, index))


def _flat(error: Exception) -> str:
    return " ".join(str(error).split())
