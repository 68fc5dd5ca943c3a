"""Tasks by the names of their classes, with or without noise in their questions."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from multiform.compat.eval_framework.base_task import BaseTask
from multiform.errors import UsageError, nearest
from multiform.formats import ResponseType
from multiform.formats.perturbation import Perturbation as PerturbationConfig
from multiform.imports.finder import eval_framework_finder as finder
from multiform.tasks.python_tasks import task_classes_in

SomeTask = TypeVar("SomeTask", bound=BaseTask[Any])


class PerturbationType(str, Enum):  # noqa: UP042 - a name that a configuration takes as well
    """The kinds of noise."""

    EDITOR = "editor"
    PERMUTE = "permute"
    REPLACE = "replace"
    DELETE = "delete"
    UPPERCASE = "uppercase"

    def __str__(self) -> str:
        return self.value


def create_perturbation_class(base_class: type[SomeTask], perturbation_config: PerturbationConfig) -> type[SomeTask]:
    """A class of the same tasks whose questions have noise."""
    changes = {key: getattr(perturbation_config, key) for key in ("type", "probability", "seed")}
    noise = {**changes, "type": str(changes["type"]), "unmodifiable_words": perturbation_config.unmodifiable_words}
    config = {**base_class.CONFIG, "perturbation": noise}
    # Without a NAME in its body the class is not registered in the place of the one that it comes from.
    return type(f"Perturbed{base_class.__name__}", (base_class,), {"CONFIG": config, "__module__": __name__})


class UnknownTaskError(UsageError, KeyError, ValueError):
    """No task of that name is registered."""

    __str__ = UsageError.__str__


class EvalFactory:
    """Makes the tasks of a class, which may be imported only when it is used."""

    def __init__(self, source_module: str, name: str, task: type[BaseTask[Any]] | None = None) -> None:
        self.source_module, self._name, self._task = source_module, name, task

    def id(self) -> str:
        return self._name

    def task_class(self) -> type[BaseTask[Any]]:
        if self._task is None:
            self._task = getattr(importlib.import_module(self.source_module), self._name)
        return self._task

    def response_type(self) -> ResponseType:
        return self.task_class().get_response_type()

    def metrics(self) -> list[Any]:
        return self.task_class().get_metrics()

    def display_name(self) -> str:
        return self.task_class().NAME

    def create(self, num_fewshot: int, **kwargs: Any) -> BaseTask[Any]:
        """The task, as `BaseTask.with_overwrite` makes it."""
        return self.task_class().with_overwrite(num_fewshot, **kwargs)

    def create_perturbation(
        self, perturbation_config: PerturbationConfig, num_fewshot: int, **kwargs: Any
    ) -> BaseTask[Any]:
        """The task with noise in its questions."""
        return create_perturbation_class(self.task_class(), perturbation_config).with_overwrite(num_fewshot, **kwargs)


class Registry:
    """Tasks by the names of their classes; case, spaces, dashes and underscores do not matter."""

    def __init__(self) -> None:
        self._factories: dict[str, EvalFactory] = {}

    def __iter__(self) -> Iterator[str]:
        return (factory.id() for factory in self._factories.values())

    def __contains__(self, name: str) -> bool:
        return _key(name) in self._factories

    def __getitem__(self, name: str, /) -> EvalFactory:
        if name not in self:
            hint = nearest(name, list(self), listed="tasks")
            raise UnknownTaskError(f"no task '{name}' is registered", where="registry", hint=hint)
        return self._factories[_key(name)]

    def task_names(self) -> list[str]:
        return list(self)

    def items(self) -> Iterator[tuple[str, EvalFactory]]:
        return ((factory.id(), factory) for factory in self._factories.values())

    def add(self, factory: EvalFactory) -> None:
        if factory.id() in self:
            raise ValueError(f"a task '{factory.id()}' is registered already")
        self._factories[_key(factory.id())] = factory

    def register(self, task: type[BaseTask[Any]]) -> str:
        """Register a class under its name."""
        if not isinstance(task, type) or not issubclass(task, BaseTask):
            raise ValueError(f"{task!r} is not a subclass of BaseTask")
        self.add(EvalFactory(task.__module__, task.__name__, task))
        return task.__name__

    def register_lazy(self, class_path: str, /) -> None:
        """Register a class by its module and name, to be imported when it is used."""
        module, _, name = class_path.rpartition(".")
        if not module:
            raise ValueError(f"'{class_path}' has no module; write e.g. my_package.my_tasks.MyTask")
        self.add(EvalFactory(module, name))


_registry = Registry()


def registry() -> Registry:
    """The registry that is in use."""
    return _registry


@contextmanager
def with_registry(registry: Registry) -> Iterator[None]:
    """Use another registry for a while."""
    global _registry
    before, _registry = _registry, registry
    try:
        yield
    finally:
        _registry = before


def registered_task_names() -> list[str]:
    """The names of all classes."""
    return list(_registry)


def is_registered(name: str, /) -> bool:
    """Whether a class has that name."""
    return name in _registry


def validate_task_name(name: str) -> str:
    """The name, where a task has it."""
    _registry[name]
    return name


def register_task(task: type[BaseTask[Any]]) -> str:
    """Register a class under its name."""
    return _registry.register(task)


def register_lazy_task(class_path: str, /, registry: Registry | None = None) -> None:
    """Register a class by its module and name, to be imported when it is used."""
    (registry if registry is not None else _registry).register_lazy(class_path)


def register_all_tasks(registry: Registry | None = None) -> None:
    """Register the classes of all benchmarks that can be imported, those beside task files and of the real package."""
    for file in finder.benchmark_files():
        _register_file(file, registry)


def __getattr__(name: str) -> Any:
    """`register_arc_tasks` and the like, which register the classes of one benchmark."""
    match = re.fullmatch(r"register_(\w+)_tasks", name)
    files = {file.stem: file for file in finder.benchmark_files()} if match else {}
    if match is None or match[1] not in files:
        raise AttributeError(f"module 'eval_framework.tasks', provided by Multiform, has no {name!r}")
    return partial(_register_file, files[match[1]])


def _register_file(file: Path, registry: Registry | None = None) -> None:
    for task in task_classes_in(file):
        if task.attribute not in (registry if registry is not None else _registry):
            register_lazy_task(f"eval_framework.tasks.benchmarks.{file.stem}.{task.attribute}", registry=registry)


def _key(name: str) -> str:
    key = re.sub(r"[\s\-_]+", "", name).upper()
    if not key.isalnum():
        raise ValueError(f"the task name '{name}' may hold letters, digits, spaces, dashes and underscores alone")
    return key
