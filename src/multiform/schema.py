"""Checks of keys and values that users state: values against type annotations, in YAML's words instead of Python's."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import NotRequired, Required, is_typeddict

from multiform.errors import ConfigError, excerpt, nearest

if TYPE_CHECKING:  # pydantic is imported when something is checked, which --help does not need
    from pydantic import TypeAdapter, ValidationError

#: Turns a path of keys into the place that a message names.
Where = Callable[..., str | None]

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    Mapping: "a mapping",
    list: "a list",
    Sequence: "a list",
    tuple: "a list",
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


def key_path(*path: str | int) -> str:
    """A path of keys as the place that a message names, where nothing is known of a file."""
    return ".".join(map(str, path))


def check_values(
    cls: type, values: Mapping[str, Any], where: Where = key_path, *, hint: str = "see multiform docs tasks"
) -> None:
    """Raise a ConfigError for the first value that does not have the type of its field in `cls`."""
    from pydantic import ValidationError

    for name, kind in _hints(cls).items():
        if name not in values or name.startswith("_"):
            continue
        _check_names(values[name], (name,), where)
        try:
            _type_adapter(kind).validate_python(values[name], strict=True)
        except ValidationError as error:
            remedy = f"write e.g. {_EXAMPLES[name]}" if name in _EXAMPLES else hint
            raise _config_error(error, name, kind, values[name], where, remedy) from error


def has_type(value: Any, hint: Any) -> bool:
    """Whether a value has a type, which may be annotated with limits."""
    from pydantic import ValidationError

    try:
        _type_adapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _check_names(value: Any, path: tuple[str | int, ...], where: Where) -> None:
    """Raise a ConfigError for a key that is not text, which no metric, filter or format can have as an argument.

    The values below an argument, or in `metadata`, may have any keys.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"the key {_as_yaml(key)} is not text", where=where(*path), hint="put it in quotes")
            if key in ("kwargs", "metric_list", "filter") and path != ("metadata",):
                _check_names(inner, (*path, key), where)
    elif isinstance(value, list) and path[-1] in ("metric_list", "filter_list", "filter"):
        for index, inner in enumerate(value):
            _check_names(inner, (*path, index), where)


def check_keys(kind: str, known: Collection[str], keys: Iterable[Any], where: Where = key_path) -> None:
    """Raise a ConfigError for the first unknown key, with the nearest known one.

    `kind` says what the keys belong to, such as "a task".
    """
    for key in keys:
        if key not in known:
            shown = [name for name in known if not name.startswith("_")]
            hint = nearest(str(key), shown, listed="the keys are")
            raise ConfigError(f"unknown key '{key}' in {kind}", where=where(str(key)), hint=hint)


def describe(hint: Any) -> str:
    """A type annotation in words.

    >>> describe(str | list[str] | None), describe(bool | None)
    ('a string, a list or null', 'true, false or null')
    """
    words = [word for part in _members(hint) for word in _describe_one(part).split(" or ")]
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _type_adapter(hint: Any) -> TypeAdapter[Any]:
    """The validator of a type; created on first use, as creating those of all fields takes a tenth of a second."""
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a type with a configuration of its own, such as a TypedDict
        return TypeAdapter(hint)


def _config_error(error: ValidationError, name: str, hint: Any, value: Any, where: Where, remedy: str) -> ConfigError:
    """The deepest problem that pydantic found, as one message."""
    members = {getattr(part, "__name__", "") for part in _members(hint)}
    problems = error.errors(include_url=False)
    problem = max(problems, key=lambda e: (e["type"] == "missing", len(_path(e, members))))
    path = _path(problem, members)
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
    return words[value] if value is None or isinstance(value, bool) else excerpt(value)


def _path(problem: Any, members: Collection[str] = ()) -> tuple[str | int, ...]:
    """The keys and indexes of a location, without the names of union members that pydantic adds."""
    added = {"str", "int", "float", "bool", "list", "dict", "callable", "none", *members}
    return tuple(
        part for part in problem["loc"] if isinstance(part, int) or (part.isidentifier() and part not in added)
    )


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
