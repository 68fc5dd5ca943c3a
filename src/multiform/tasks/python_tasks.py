"""Python task files: their task classes are found without running them, and imported when they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.imports import eval_framework
from multiform.registry import Registry
from multiform.tasks.functions import FunctionRef, load_module, resolve_functions
from multiform.tasks.group import Node
from multiform.tasks.source import Position, StatedKeys, display
from multiform.tasks.yaml import read_text

_MAX_BASES = 50  # no task is derived from more classes of its own file
#: Attributes by which a task class is recognised where its base class is in another file.
_TELLING = ("TASK_STYLER", "DATASET_PATH", "SAMPLE_SPLIT", "SUBJECTS")


class PythonTask:
    """A task as a Python class; `BaseTask`, which users derive their classes from, implements it."""

    NAME: str

    def to_node(
        self, label: str | None = None, overrides: Mapping[str, Any] | None = None, *, member: str | None = None
    ) -> Node:
        """The configuration of the task; a group with a task for each subject where there are several."""
        raise NotImplementedError

    def member_names(self) -> list[str]:
        """The names of the tasks of this class, one for each subject where there are several."""
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
        named = FunctionRef(f"{self.file.stem}.{self.attribute}", self.file.parent, Position(self.file, self.line))
        foreign = "eval_framework" in read_text(self.file)
        with eval_framework.finder.during(self.file, load_module) if foreign else nullcontext():
            cls: Any = named.resolve()
        if not isinstance(cls, type) or not issubclass(cls, PythonTask):
            place = f"{display(self.file)}:{self.line}"
            raise ConfigError(f"{self.attribute} is not a task class", where=place, hint="subclass BaseTask")
        return cls


def resolve_class(stated: StatedKeys) -> StatedKeys:
    """What a task file states, with the class that it names under `class`; the same where it names none.

    A class with `any_keys` gets all keys itself, and the configuration has only those that name the task.
    """
    data = stated.data
    if "class" not in data:
        return stated
    settings = {key: value for key, value in data.items() if key != "class"}
    kind = resolve_functions(data["class"])
    if not isinstance(kind, type):
        message = f"expected a class, got {shorten(kind)}"
        place = data["class"].position if isinstance(data["class"], FunctionRef) else data.get("task")
        raise ConfigError(message, where=f"{place}: class", hint="write class: !function module.Class")
    if not getattr(kind, "any_keys", False):
        settings.pop("group", None)  # as with lm-eval, it has no say where there is a class
        return replace(stated, data=settings, task_class=kind)
    for key, name in (("_formats_selection", "format"), ("perturbation", "perturbation")):
        if settings.get(key) is not None:
            message = f"{kind.__name__} writes its prompts itself, so that no {name} can change them"
            raise ConfigError(message, where=str(data.get("task")), hint=f"run it without a {name}")
    naming = {key: value for key, value in settings.items() if key in ("task", "task_alias", "tag")}
    return replace(stated, data=naming, task_class=kind, class_keys={**settings, "class": kind})


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
