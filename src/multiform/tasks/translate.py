"""Write tasks in another dialect: field mappings as methods of a class, and simple methods as field mappings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from multiform.fields import FieldSpec
from multiform.formats.dialects.convert import Written
from multiform.prompts.template import has_markup
from multiform.tasks.config import TaskConfig
from multiform.tasks.keys import default_keys, plain

#: Methods of strings and lists that Jinja expressions may call.
_METHODS = ("index", "lower", "split", "strip", "title", "upper")


def task_fields(config: TaskConfig) -> tuple[dict[str, Any], list[str]]:
    """The keys of a task beside its format, and messages about functions that are left out.

    Simple functions become Jinja expressions.
    """
    values: dict[str, Any] = {"task": config.base_name}
    lost: list[str] = []
    for name, default in default_keys().items():
        value = config.stated.get(name)
        if value is None or value == default or name.startswith("_") or name in ("task", "formats", "template"):
            continue
        simple = jinja_of(value) if callable(value) else plain(value)
        if simple is None:
            lost.append(f"{name} is code ({plain(value)}) and left out: write it as !function module.name")
        else:
            values[name] = simple
    return values, lost


def config_text(translation: Written, values: Mapping[str, Any]) -> str:
    """The task as a Python expression for a TaskConfig."""
    arguments = {**{key: repr(value) for key, value in values.items()}, translation.key: translation.python()}
    if translation.dialect == "style":
        arguments[translation.key] = repr(translation.value)
    return "TaskConfig(\n" + "".join(f"    {key}={value},\n" for key, value in arguments.items()) + ")"


def class_text(config: TaskConfig, translation: Written, values: Mapping[str, Any]) -> str:
    """The task as a Python class with a styler; its other keys are in CONFIG."""
    rest = dict(values)
    read = [python_of(rest.pop(f"doc_to_{name}", None)) for name in ("text", "choice", "target")]
    attributes = {
        "NAME": rest.pop("task"),
        "DATASET_PATH": rest.pop("dataset_path", None),
        "SUBJECTS": [rest.pop("dataset_name")] if "dataset_name" in rest else None,
        "SAMPLE_SPLIT": rest.pop("test_split", None) or rest.pop("validation_split", None),
        "FEWSHOT_SPLIT": rest.pop("fewshot_split", None),
        "CONFIG": rest or None,
    }
    named = "".join(f"    {key} = {value!r}\n" for key, value in attributes.items() if value is not None)
    methods = {
        "_get_raw_question": read[0],
        "_get_choices": read[1],
        "_get_correct_index": read[2] and f"gold_index({read[2]}, self._get_choices(item))",
    }
    written = (f"\n    def {name}(self, item):\n        return {code or '...'}\n" for name, code in methods.items())
    name = re.sub(r"\W+", "_", config.base_name).strip("_") or "Task"
    return (
        f"from multiform import BaseTask, {translation.kind}, process_field\n"
        "from multiform.labels import gold_index\n\n\n"
        f"class {name if name[0].isalpha() else f'Task_{name}'}(BaseTask[str]):\n"
        f"{named}    TASK_STYLER = {translation.python()}\n{''.join(written)}"
    )


def jinja_of(function: Callable[..., Any]) -> str | None:
    """The field that gives the same as a function with a single return statement, or None where there is none.

    >>> class Task:
    ...     def choices(self, item): return item["choices"]["text"]
    >>> jinja_of(Task().choices), jinja_of(len)
    ('{{choices.text}}', None)
    """
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        definition = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    if not isinstance(definition, ast.FunctionDef):
        return None
    body = [
        part for part in definition.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
    ]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    expression = _expression(body[0].value, definition.args.args[-1].arg)
    if expression is None:
        return None
    return expression if expression.isidentifier() else f"{{{{{expression}}}}}"


def python_of(spec: FieldSpec) -> str | None:
    """The Python expression that reads a field from `item`, or None for a function.

    >>> python_of("question"), python_of("{{choices.text}}")
    ("item['question']", "process_field(item, '{{choices.text}}')")
    """
    if spec is None or callable(spec):
        return None
    if isinstance(spec, str) and not has_markup(spec):
        return f"item[{spec!r}]"
    return f"process_field(item, {spec!r})" if isinstance(spec, str) else repr(spec)


def _expression(node: ast.expr, item: str) -> str | None:
    """The Jinja expression for a Python expression of columns, subscripts and a few methods; None for others."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.Subscript):
        return _subscript(node, item)
    if isinstance(node, ast.Call) and not node.keywords:
        return _call(node, item)
    return None


def _subscript(node: ast.Subscript, item: str) -> str | None:
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(node.value, ast.Name) and node.value.id == item:
        return key if isinstance(key, str) and key.isidentifier() else None
    inner = _expression(node.value, item)
    if inner is None or not isinstance(key, str | int):
        return None
    return f"{inner}.{key}" if isinstance(key, str) and key.isidentifier() else f"{inner}[{key!r}]"


def _call(node: ast.Call, item: str) -> str | None:
    arguments = [_expression(argument, item) for argument in node.args]
    if None in arguments:
        return None
    if isinstance(node.func, ast.Name) and node.func.id == "answer_key_to_index" and len(arguments) == 1:
        return f"{arguments[0]}|answer_key_to_index"
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        inner = _expression(node.func.value, item)
        return None if inner is None else f"{inner}.{node.func.attr}({', '.join(map(str, arguments))})"
    return None
