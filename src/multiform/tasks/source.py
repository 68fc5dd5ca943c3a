"""StatedKeys: what is stated of a task or group, the file and line of every key, and checks of keys and values.

Values are checked against type annotations; messages use YAML's words instead of Python's.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import NotRequired, Required, is_typeddict

from multiform.errors import ConfigError, nearest, shorten

if TYPE_CHECKING:  # pydantic is imported when something is checked, which --help does not need
    from pydantic import TypeAdapter, ValidationError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a file, lines counted from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{display(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Source:
    """The positions of the keys of one configuration, which may come from several files."""

    file: Path
    positions: Mapping[KeyPath, FilePosition] = field(default_factory=dict)
    #: Warnings about the files, such as a key that is given twice.
    notes: tuple[ConfigError, ...] = ()

    def at(self, *path: str | int) -> FilePosition:
        """The position of a key, given as a path, or of the innermost key around it that is known."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return FilePosition(self.file, 1)

    def under(self, *path: str | int) -> Source:
        """The source of a part of the configuration, such as one item of a list."""
        inner = {key[len(path) :]: position for key, position in self.positions.items() if key[: len(path)] == path}
        return Source(self.file, inner, self.notes)

    def over(self, sources: Iterable[Source]) -> Source:
        """This source merged over others, the later ones first: a top-level key hides the same key below it."""
        merged: dict[KeyPath, FilePosition] = {}
        notes: dict[str, ConfigError] = {}
        for source in [*sources, self]:
            notes |= {str(note): note for note in source.notes}
            names = {key[0] for key in source.positions if key}
            merged = {key: p for key, p in merged.items() if key and key[0] not in names}
            merged |= {key: p for key, p in source.positions.items() if key}
        if () in self.positions:
            merged[()] = self.positions[()]
        return Source(self.file, merged, tuple(notes.values()))


@dataclass(frozen=True, slots=True)
class StatedKeys:
    """What the file, the class or the call that defines a task or group states: the keys that it sets, and where.

    Loaders, groups and dialects pass it on, and `TaskConfig.from_stated` resolves it. A key that is not set is not
    in `data`, even if a configuration has a default for it.
    """

    data: dict[str, Any]
    source: Source | None = None
    #: The class of the task, if it is not the one of its output type.
    task_class: type | None = None
    #: All keys of the file, for a task class that takes more keys than there are fields.
    class_keys: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default if it is not set."""
        return self.data.get(key, default)

    def with_keys(self, **changes: Any) -> StatedKeys:
        """The same with other values of some keys."""
        return replace(self, data={**self.data, **changes})

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self.source, self.data.get("task", self.data.get("group")), *path)


def display(path: Path) -> str:
    """The path for a message: relative to the working directory if it is below that."""
    text, working_folder = str(path), os.getcwd()
    return "." if text == working_folder else text.removeprefix(os.path.join(working_folder, ""))


def where(source: Source | None, task: str | None, *path: str | int) -> str | None:
    """The place of a key as messages show it: ``file.yaml:12: key``, or ``task: key`` without a file."""
    key = ".".join(map(str, path))
    start = str(source.at(*path)) if source else task
    return f"{start}: {key}" if start and key else start or key or None


_WORDS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    Mapping: "a mapping",
    list: "a list",
    Sequence: "a list",
    type(None): "null",
    Callable: "a function (!function module.name)",
}
#: An example of how to write a field, for error messages.
_EXAMPLES = {
    "formats": "formats: mcqa",
    "metric_list": "metric_list: [{metric: acc}]",
    "filter_list": "filter_list: [{name: strict, filter: [{function: take_first}]}]",
    "generation_kwargs": "generation_kwargs: {max_gen_toks: 64}",
    "fewshot_config": "fewshot_config: {sampler: first_n}",
    "dataset_kwargs": "dataset_kwargs: {data_files: rows.jsonl}",
    "doc_to_text": "doc_to_text: question",
    "doc_to_choice": "doc_to_choice: choices",
    "doc_to_target": "doc_to_target: answer",
    "process_docs": "process_docs: !function utils.process_docs",
    "metadata": "metadata: {version: 1.0}",
    "scorer": "scorer: choice_match",
    "tag": "tag: [science, english]",
}


def check_values(cls: type, values: Mapping[str, Any], where: Callable[..., str | None]) -> None:
    """Raise a ConfigError for the first value that does not have the type of its field in `cls`.

    `where` turns a path of keys into the place that a message names.
    """
    from pydantic import ValidationError

    for name, hint in _hints(cls).items():
        if name not in values or name.startswith("_"):
            continue
        _check_names(values[name], (name,), where)
        try:
            _adapter(cls, name).validate_python(values[name], strict=True)
        except ValidationError as error:
            raise _config_error(error, name, hint, values[name], where) from error


def has_type(value: Any, hint: Any) -> bool:
    """Whether a value has a type, which may be annotated with limits."""
    from pydantic import ValidationError

    try:
        _type_adapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _check_names(value: Any, path: tuple[str | int, ...], where: Callable[..., str | None]) -> None:
    """Raise a ConfigError for a key that is not text, which no metric, filter or format can have as an argument.

    `metadata`, and the values below an argument, may have any keys.
    """
    if isinstance(value, Mapping) and path != ("metadata",):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"the key {_as_yaml(key)} is not text", where=where(*path), hint="put it in quotes")
            if key in ("kwargs", "metric_list", "filter"):
                _check_names(inner, (*path, key), where)
    elif isinstance(value, list) and path[-1] in ("metric_list", "filter_list", "filter"):
        for index, inner in enumerate(value):
            _check_names(inner, (*path, index), where)


def check_keys(kind: str, known: Sequence[str], keys: Mapping[Any, Any], where: Callable[..., str | None]) -> None:
    """Raise a ConfigError for the first unknown key, with the nearest known one.

    `kind` says what the keys belong to, such as "a task"; `where` turns a key into the place that a message names.
    """
    for key in keys:
        if key not in known:
            shown = [name for name in known if not name.startswith("_")]
            hint = nearest(str(key), shown, listed="the keys are")
            raise ConfigError(f"unknown key '{key}' in {kind}", where=where(str(key)), hint=hint)


def describe(hint: Any) -> str:
    """A type annotation in words.

    >>> describe(str | list[str] | None)
    'a string, a list or null'
    """
    words = list(dict.fromkeys(_describe_one(part) for part in _members(hint)))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _adapter(cls: type, name: str) -> TypeAdapter[Any]:
    """The validator of one field; created on first use, as creating all of them takes a tenth of a second."""
    return _type_adapter(_hints(cls)[name])


@cache
def _type_adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a type with a configuration of its own, such as a TypedDict
        return TypeAdapter(hint)


def _config_error(
    error: ValidationError, name: str, hint: Any, value: Any, where: Callable[..., str | None]
) -> ConfigError:
    """The deepest problem that pydantic found, as one message."""
    members = {getattr(part, "__name__", "") for part in _members(hint)}
    problems = error.errors(include_url=False)
    for problem in problems:
        if problem["loc"][-1:] == ("[key]",):
            message = f"the key {_as_yaml(problem['input'])} is not text"
            return ConfigError(message, where=where(name), hint="put it in quotes")
    problem = max(problems, key=lambda e: (e["type"] == "missing", len(_path(e, members))))
    path = _path(problem, members)
    example = _EXAMPLES.get(name)
    remedy = f"write e.g. {example}" if example else "see multiform docs tasks"
    if problem["type"] == "missing":
        return ConfigError(f"missing key '{path[-1]}'", where=where(name, *path[:-1]), hint=f"add it; {remedy}")
    # If a field may be null, a message about its other type is the helpful one.
    if path and len([part for part in _members(hint) if part is not type(None)]) == 1:
        message = f"{_expectation(problem)}, got {_as_yaml(problem['input'])}"
        return ConfigError(message, where=where(name, *path), hint=remedy)
    return ConfigError(f"expected {describe(hint)}, got {_as_yaml(value)}", where=where(name), hint=remedy)


def _as_yaml(value: Any) -> str:
    """A value as YAML writes it.

    >>> _as_yaml(None), _as_yaml(True), _as_yaml("five")
    ('null', 'true', "'five'")
    """
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else shorten(value)


def _path(problem: Any, members: Collection[str] = ()) -> tuple[str | int, ...]:
    """The keys and indexes of a location, without the names of union members that pydantic adds."""
    return tuple(part for part in problem["loc"] if isinstance(part, int) or (_is_key(part) and part not in members))


def _is_key(part: str) -> bool:
    return part.isidentifier() and part not in ("str", "int", "float", "bool", "list", "dict", "callable", "none")


def _expectation(problem: Any) -> str:
    text: str = problem["msg"]
    for source_type, type_name in (
        ("Input should be a valid dictionary", "expected a mapping"),
        ("Input should be a valid boolean", "expected true or false"),
        ("Input should be a valid integer", "expected a whole number"),
        ("Input should be a valid ", "expected a "),
        ("Input should be ", "expected "),
    ):
        if text.startswith(source_type):
            return type_name + text.removeprefix(source_type)
    return text


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _describe_one(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin in (Required, NotRequired):
        return describe(get_args(hint)[0])
    if origin is not None and origin.__name__ == "Callable":
        return _WORDS[Callable]
    if is_typeddict(hint) or (isinstance(hint, type) and origin is None and hint not in _WORDS):
        return "a mapping"
    return _WORDS.get(origin or hint, str(hint))
