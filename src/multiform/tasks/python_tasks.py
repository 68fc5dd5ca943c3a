"""Tasks as Python classes: found in files without running them, imported when used, and written from task files."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, UsageError, excerpt, running
from multiform.fields import FieldSpec
from multiform.formats.dialects import WrittenFormat
from multiform.imports import eval_framework_finder
from multiform.paths import display, is_file
from multiform.prompts.template import has_markup
from multiform.registry import Registry
from multiform.tasks.config import TaskConfig
from multiform.tasks.functions import FunctionRef, resolve_functions
from multiform.tasks.group import Node
from multiform.tasks.keys import FilePosition, StatedKeys, default_keys, plain
from multiform.tasks.yaml import read_text

_MAX_BASES = 50  # no task is derived from more classes of its own file
#: Attributes by which a task class is recognised if its base class is in another file.
_TELLING = ("TASK_STYLER", "DATASET_PATH", "SAMPLE_SPLIT", "SUBJECTS")


class PythonTask:
    """A task as a Python class; `BaseTask`, which users derive their classes from, implements it."""

    NAME: str

    def to_node(
        self, label: str | None = None, overrides: Mapping[str, Any] | None = None, *, member: str | None = None
    ) -> Node:
        """The configuration of the task; a group with a task for each subject if there are several."""
        raise NotImplementedError

    def member_names(self) -> list[str]:
        """The names of the tasks of this class, one for each subject if there are several."""
        raise NotImplementedError

    def supported_formats(self) -> list[str]:
        """The formats that the task can be run with."""
        raise NotImplementedError


#: Task classes by their NAME.
task_classes: Registry[type[PythonTask]] = Registry("task")


@dataclass(frozen=True, slots=True)
class TaskClass:
    """A task class in a Python file, not yet imported."""

    name: str
    attribute: str
    file: Path
    line: int

    def load(self) -> type[PythonTask]:
        """Import the file and return the class."""
        named = FunctionRef(f"{self.file.stem}.{self.attribute}", self.file.parent, FilePosition(self.file, self.line))
        foreign = "eval_framework" in read_text(self.file)
        if foreign:  # files of one folder import each other, and methods may import the package when they are called
            eval_framework_finder.folders.add(self.file.parent.absolute())
            eval_framework_finder.install()
        with eval_framework_finder.during(self.file) if foreign else nullcontext():
            cls: Any = named.resolve()
        if not isinstance(cls, type) or not issubclass(cls, PythonTask):
            place = f"{display(self.file)}:{self.line}"
            raise ConfigError(f"{self.attribute} is not a task class", where=place, hint="subclass BaseTask")
        return cls


def instantiate(kind: TaskClass | type[PythonTask]) -> PythonTask:
    """An instance of the task class; errors in its constructor name the class."""
    cls = kind.load() if isinstance(kind, TaskClass) else kind
    with running(f"{cls.__name__}()", raises=ConfigError, where=cls.NAME, hint="call it to debug it"):
        return cls()


def resolve_class(stated: StatedKeys) -> StatedKeys:
    """What a task file states, with the class that it names under `class`.

    A class with `any_keys` gets all keys itself, and the configuration has only those that name the task.
    """
    data = stated.data
    settings = {key: value for key, value in data.items() if key != "class"}
    kind = resolve_functions(data["class"])
    if not isinstance(kind, type):
        message = f"expected a class, got {excerpt(kind)}"
        place = data["class"].position if isinstance(data["class"], FunctionRef) else data.get("task")
        raise ConfigError(message, where=f"{place}: class", hint="write class: !function module.Class")
    if not getattr(kind, "any_keys", False):
        settings.pop("group", None)  # as with lm-eval, it has no say if there is a class
        return replace(stated, data=settings, task_class=kind)
    for key, name in (("_formats_selection", "format"), ("perturbation", "perturbation")):
        if settings.get(key) is not None:
            message = f"{kind.__name__} writes its prompts itself, so no {name} can change them"
            raise ConfigError(message, where=str(data.get("task")), hint=f"run it without a {name}")
    naming = {key: value for key, value in settings.items() if key in ("task", "task_alias", "tag")}
    return replace(stated, data=naming, task_class=kind, class_keys={**settings, "class": kind})


def python_tasks_of(path: Path) -> list[TaskClass]:
    """The task classes of a Python file that a user names; a file without any is an error."""
    if not is_file(path):
        raise UsageError("no such file", where=display(path), hint="check the path")
    classes = task_classes_in(path, named=True)
    if not classes:
        raise UsageError("it defines no task", where=display(path), hint="subclass BaseTask and give the class a NAME")
    return classes


def task_classes_in(file: Path, *, named: bool = False) -> list[TaskClass]:
    """The task classes of a file: those with a NAME that are derived from BaseTask.

    A file that is not valid Python is an error only if it seems to define tasks, or if the user has `named` it.
    """
    try:
        source = read_text(file)
    except ConfigError:
        if named:
            raise
        return []
    if "NAME" not in source and not named:
        return []
    try:
        tree = ast.parse(source)
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        return list(_tasks(classes, file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if "BaseTask" not in source and not named:
            return []
        place = f"{display(file)}:{getattr(error, 'lineno', None) or 1}"
        why = error.args[0] if isinstance(error, SyntaxError | ValueError) else "it is too deeply nested"
        raise ConfigError(f"not valid Python: {why}", where=place, hint="fix this line") from error


def _tasks(classes: dict[str, ast.ClassDef], file: Path) -> Iterator[TaskClass]:
    for node in classes.values():
        values = _attributes(node)
        name = values.get("NAME")
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or not name.value:
            continue
        if _is_task(node, classes) or any(key in values for key in _TELLING):
            yield TaskClass(name.value, node.name, file, node.lineno)


def _is_task(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a class is derived from BaseTask, directly or through other classes of its file."""
    waiting, seen = [node.name], {node.name}
    while waiting:
        bases = {_base_name(base) for base in classes[waiting.pop()].bases}
        if "BaseTask" in bases:
            return True
        inner = (bases & classes.keys()) - seen
        seen |= inner
        waiting += inner
        if len(seen) > _MAX_BASES:
            return False
    return False


def _base_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _base_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _attributes(node: ast.ClassDef) -> dict[str, ast.expr]:
    """The attributes that the body of a class assigns."""
    values: dict[str, ast.expr] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            values |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values[statement.target.id] = statement.value
    return values


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


def config_text(translation: WrittenFormat, values: Mapping[str, Any]) -> str:
    """The task as a Python expression for a TaskConfig."""
    arguments = {**{key: repr(value) for key, value in values.items()}, translation.key: translation.python()}
    if translation.dialect == "style":
        arguments[translation.key] = repr(translation.value)
    return "TaskConfig(\n" + "".join(f"    {key}={value},\n" for key, value in arguments.items()) + ")"


def class_text(config: TaskConfig, translation: WrittenFormat, values: Mapping[str, Any]) -> str:
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
        f"from multiform import BaseTask, {translation.class_name}, process_field\n"
        "from multiform.labels import gold_index\n\n\n"
        f"class {name if name[0].isalpha() else f'Task_{name}'}(BaseTask[str]):\n"
        f"{named}    TASK_STYLER = {translation.python()}\n{''.join(written)}"
    )


def jinja_of(function: Callable[..., Any]) -> str | None:
    """The field that gives the same as a function with a single return statement, or None if there is none.

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
