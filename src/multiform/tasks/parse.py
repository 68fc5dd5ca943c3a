"""Parsing one YAML document: its data, the position of every key, and errors that say what to change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from multiform.errors import ConfigError, excerpt
from multiform.paths import display
from multiform.tasks.functions import FunctionRef
from multiform.tasks.keys import FilePosition, KeyPath

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: The most values of a task file, with everything that aliases repeat.
MAX_NODES = 200_000
#: The most brackets that are open at once.
MAX_DEPTH = 1000
#: The most characters of a number: those of base 60 (1:30:00) take the square of their length to compute, and Python
#: writes none of more than 4,300 digits.
MAX_DIGITS = 1000
_BRACKETS = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The data of a YAML document, the position of each key, and notes about unusual values that are accepted."""

    data: Any
    positions: dict[KeyPath, FilePosition]
    notes: tuple[ConfigError, ...] = ()


def parse_yaml(text: str, path: Path) -> Parsed:
    """Parse a text that holds one YAML document; errors and positions name `path`."""
    loader = None
    try:
        _check_nesting(text)
        loader = _Loader(text.removeprefix("\ufeff"))
        loader.path, loader.notes = path, []
        node = loader.get_single_node()
        if node is None:
            return Parsed(None, {})
        if "*" in text:
            _check_aliases(node, path)
        positions = dict(_positions(node, path, set()))
        return Parsed(loader.construct_document(node), positions, tuple(loader.notes))
    except yaml.YAMLError as error:
        raise explain_error(error, text, path) from error
    except RecursionError as error:
        raise ConfigError("too deeply nested", where=display(path), hint="flatten the file") from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_nesting(text: str) -> None:
    """Raise a RecursionError for brackets inside of thousands of brackets, which take the parser minutes."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > MAX_DEPTH:
            raise RecursionError("brackets are nested too deeply")


def _check_aliases(node: Any, path: Path) -> None:
    if (size := _expanded_size(node)) > MAX_NODES:
        too_many = f"aliases repeat more than {MAX_NODES:,} values"
        message = "not valid YAML: an alias is recursive, it repeats itself" if size == math.inf else too_many
        raise ConfigError(message, where=str(FilePosition(path, 1)), hint="write out what is needed of it")


def _expanded_size(node: Any) -> float:
    """The number of values of a document with all aliases expanded; infinite if an alias contains itself.

    Aliases of aliases make a few lines stand for billions of values, each of which the rest of the program would visit.
    """
    sizes: dict[int, float] = {}
    waiting = [(node, False)]
    while waiting:
        node, counted = waiting.pop()
        parts = [] if isinstance(node, yaml.ScalarNode) else _parts(node)
        if counted:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
        elif id(node) not in sizes:
            sizes[id(node)] = math.inf  # for an alias inside of what it repeats
            waiting.append((node, True))
            waiting += [(part, False) for part in parts if id(part) not in sizes]
    return sizes[id(node)]


def _parts(node: Any) -> list[Any]:
    return [part for item in getattr(node, "value", ()) for part in (item if isinstance(item, tuple) else (item,))]


class _Loader(_BASE):  # type: ignore[misc]
    """A safe loader that resolves `!function` relative to the file and notes repeated keys."""

    path: Path
    notes: list[ConfigError]


def _function(loader: Any, node: Any) -> FunctionRef:
    name = node.value if isinstance(node, yaml.ScalarNode) else [getattr(item, "value", item) for item in node.value]
    position = FilePosition(loader.path, node.start_mark.line + 1)
    if not re.fullmatch(r"\w+(\.\w+)+", str(name)):
        hint = "write e.g. !function utils.process_docs, with utils.py beside this file"
        raise ConfigError(f"!function expects module.name, got {excerpt(name)}", where=str(position), hint=hint)
    return FunctionRef(str(name), loader.path.parent, position)


def _mapping(loader: Any, node: Any) -> dict[Any, Any]:
    if isinstance(node, yaml.MappingNode):
        _check_keys(loader, node)
        loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


def _scalar(kind: str) -> Callable[[Any, Any], Any]:
    """Constructs a number, date or truth value; an error names the line of one that is impossible or too long."""
    construct = getattr(_BASE, f"construct_yaml_{kind}")

    def construct_checked(loader: Any, node: Any) -> Any:
        length = len(node.value)
        try:
            if length > MAX_DIGITS:
                raise ValueError(f"it has {length:,} characters, and {MAX_DIGITS:,} are allowed")
            return construct(loader, node)
        except (ValueError, OverflowError, AttributeError, LookupError) as error:
            is_clear = isinstance(error, ValueError | OverflowError)  # 2024-13-45, and not !!bool maybe
            why = " ".join(str(error).split()) if is_clear else f"{excerpt(node.value)} is not of type {kind}"
            place = str(FilePosition(loader.path, node.start_mark.line + 1))
            message = f"a value cannot be read: {why}"
            raise ConfigError(message, where=place, hint="quote it to make it a string") from error

    return construct_checked


_Loader.add_constructor("!function", _function)
for _kind in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _scalar(_kind))
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _check_keys(loader: Any, node: Any) -> None:
    """Refuse keys that are not scalars; note keys that are given twice, of which the last one counts."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key, yaml.MappingNode) and node.flow_style and key.flow_style:
            message = "not valid YAML: a value that begins with '{{' is read as a mapping"
            hint = 'put the template in quotes, e.g. "{{question}}"'
            raise ConfigError(message, where=str(FilePosition(loader.path, line)), hint=hint)
        if not isinstance(key, yaml.ScalarNode):
            place = str(FilePosition(loader.path, line))
            raise ConfigError("not valid YAML: a key is not a word", where=place, hint="write key: value")
        if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
            message = f"the key '{key.value}' is given twice (first on line {seen[key.value]}), and this one counts"
            place = str(FilePosition(loader.path, line))
            loader.notes.append(ConfigError(message, where=place, hint="remove one of the two"))
        seen[key.value] = line


def _positions(node: Any, path: Path, seen: set[int], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, FilePosition]]:
    yield prefix, FilePosition(path, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode) or id(node) in seen:  # what an alias repeats stands elsewhere
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*prefix, str(key.value))
            yield from _positions(value, path, seen, inner)
            yield inner, FilePosition(path, key.start_mark.line + 1)
    else:
        for index, item in enumerate(node.value):
            yield from _positions(item, path, seen, (*prefix, index))


_QUOTE = 'put the value in quotes, e.g. "{{question}}"'


def explain_error(error: yaml.YAMLError, text: str, path: Path) -> ConfigError:
    """A ConfigError for an error of PyYAML, with the line at fault and what to do about it.

    >>> str(explain_error(yaml.MarkedYAMLError(problem="found undefined alias"), "a: *b", Path("t.yaml")))
    't.yaml:1: not valid YAML: found undefined alias; check indentation and quotes'
    """
    line, message, hint = _explanation(error, text)
    return ConfigError(f"not valid YAML: {message}", where=str(FilePosition(path, line)), hint=hint)


def _explanation(error: yaml.YAMLError, text: str) -> tuple[int, str, str]:
    if isinstance(error, ReaderError):
        line = text[: error.position].count("\n") + 1
        character: Any = error.character
        code = character if isinstance(character, int) else ord(character)
        return line, f"it holds the control character U+{code:04X}", "remove it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, " ".join(str(error).split()), "check indentation and quotes"
    mark: Any = error.problem_mark or error.context_mark
    opened: Any = error.context_mark or mark
    problem, context = error.problem or "", error.context or ""
    line = mark.line + 1 if mark else 1
    line_text = _line(text, line)
    if "end of stream" in problem and "quoted scalar" in context:
        return opened.line + 1, "the quote that opens here is not closed", "add the closing quote"
    character = line_text[mark.column : mark.column + 1] if mark else ""
    cannot_start = "cannot start any token" in problem
    if "found a tab" in problem or (cannot_start and character == "\t"):
        return line, "a tab stands where only spaces may", "indent with spaces"
    if cannot_start and _is_template(line_text):
        return line, "a template without quotes", _QUOTE
    if cannot_start:
        return line, f"a value cannot begin with {character!r}", "put the value in quotes"
    if "'}'" in problem or "']'" in problem:
        first = _line(text, opened.line + 1)
        hint = _QUOTE if "{{" in first else "add the closing bracket, or the comma before this line"
        return opened.line + 1, "the bracket that opens here is not closed, or a comma is missing", hint
    if "expected key" in problem or "could not find expected ':'" in problem or "'-' indicator" in problem:
        hint = _QUOTE if _is_template(line_text) else "check its indentation and quotes"
        while line > 1 and not _line(text, line).strip():  # the error may be found after empty lines
            line -= 1
        return line, "the line does not fit the lines above it", hint
    if "mapping values are not allowed" in problem:
        return line, "': ' is not expected here", "check the indentation, and quote a value that holds ': '"
    if "found another document" in problem:
        return line, "a second document begins here", "keep one document in a file"
    if "could not determine a constructor" in problem:
        tag = problem.rpartition("tag ")[2]
        return line, f"unknown tag {tag}", "the only tag is !function module.name"
    return line, problem or context, "check indentation and quotes"


def _is_template(line: str) -> bool:
    return line.partition(": ")[2].lstrip(" [").startswith(("{{", "{%"))


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if number <= len(lines) else ""
