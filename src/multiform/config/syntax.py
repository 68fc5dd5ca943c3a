"""What is wrong with YAML that does not parse, in words that say what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from multiform.config.source import Position
from multiform.errors import ConfigError

_QUOTE = 'put the value in quotes, e.g. "{{question}}"'


def explained(error: yaml.YAMLError, text: str, path: Path) -> ConfigError:
    """The error of PyYAML as ours: the line at fault, and what to do about it.

    >>> str(explained(yaml.MarkedYAMLError(problem="found undefined alias"), "a: *b", Path("t.yaml")))
    't.yaml:1: not valid YAML: found undefined alias; check indentation and quotes'
    """
    line, what, hint = _explained(error, text)
    return ConfigError(f"not valid YAML: {what}", where=str(Position(path, line)), hint=hint)


def _explained(error: yaml.YAMLError, text: str) -> tuple[int, str, str]:
    if isinstance(error, ReaderError):
        line = text[: error.position].count("\n") + 1
        return line, f"it holds the control character U+{_code(error.character):04X}", "remove it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, " ".join(str(error).split()), "check indentation and quotes"
    mark: Any = error.problem_mark or error.context_mark
    opened: Any = error.context_mark or mark
    problem, context = error.problem or "", error.context or ""
    line = mark.line + 1 if mark else 1
    here = _line(text, line)
    if "end of stream" in problem and "quoted scalar" in context:
        return opened.line + 1, "the quote that opens here is not closed", "add the closing quote"
    if "found a tab" in problem:
        return line, "a tab stands where only spaces may", "indent with spaces"
    if "cannot start any token" in problem:
        return line, *_bad_start(here, mark.column)
    if "'}'" in problem or "']'" in problem:
        first = _line(text, opened.line + 1)
        hint = _QUOTE if "{{" in first else "add the closing bracket, or the comma before this line"
        return opened.line + 1, "the bracket that opens here is not closed, or a comma is missing", hint
    if "expected key" in problem or "could not find expected ':'" in problem or "'-' indicator" in problem:
        hint = _QUOTE if _is_template(here) else "check its indentation and quotes"
        return _filled(text, line), "the line does not fit the lines above it", hint
    if "mapping values are not allowed" in problem:
        return line, "': ' is not expected here", "check the indentation, and quote a value that holds ': '"
    if "found another document" in problem:
        return line, "a second document begins here", "keep one document in a file"
    if "could not determine a constructor" in problem:
        tag = problem.rpartition("tag ")[2]
        return line, f"unknown tag {tag}", "the only tag is !function module.name"
    return line, problem or context, "check indentation and quotes"


def _bad_start(line: str, column: int) -> tuple[str, str]:
    character = line[column : column + 1]
    if character == "\t":
        return "a tab stands where only spaces may", "indent with spaces"
    if _is_template(line):
        return "a template without quotes", _QUOTE
    return f"a value cannot begin with {character!r}", "put the value in quotes"


def _is_template(line: str) -> bool:
    return line.partition(": ")[2].lstrip(" [").startswith(("{{", "{%"))


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if number <= len(lines) else ""


def _filled(text: str, number: int) -> int:
    """The line, or the last one before it that is not empty: the file's end is not at fault."""
    while number > 1 and not _line(text, number).strip():
        number -= 1
    return number


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(character)
