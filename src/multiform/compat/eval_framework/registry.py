"""Tasks by the names of their classes, and the helpers that benchmarks import beside them."""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from multiform.compat.eval_framework.base_task import BaseTask
from multiform.compat.eval_framework.sample_hooks import RANDOM_SEED as RANDOM_SEED
from multiform.compat.eval_framework.samples import Message, Role
from multiform.errors import UsageError, nearest
from multiform.formats import ResponseType
from multiform.imports.finder import eval_framework_finder as finder
from multiform.labels import label_list
from multiform.tasks.python_tasks import task_classes_in


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


# Helpers of benchmarks.

#: Packages that code needs in a container; there is none, so that nothing is installed.
BIG_CODE_BENCH_PACKAGE_MAPPING: dict[str, str | None] = {}
#: The lock files of eval-framework's benchmarks. They come with eval-framework: where there is none, a task uses
#: the newest revision of its dataset, and a file that is put here is used.
HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "hf-dataset-revisions.json"
FROZEN_HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "frozen-hf-dataset-revisions.json"


def get_n_letters(n: int) -> list[str]:
    """The first labels: A, B, C, ..."""
    return label_list(max(0, n))


class ExecutionResult(NamedTuple):
    """Whether tests passed, and what they said."""

    success: bool
    output: str


class CallableSerializer:
    """Writes functions as text."""

    @staticmethod
    def encode(fn: Callable[..., Any]) -> str:
        import dill  # type: ignore[import-untyped]

        return base64.b64encode(dill.dumps(fn)).decode("ascii")


def unittest_merge_snippets(code: str, test_code: str) -> str:
    """Code and its tests as one script, which runs the tests."""
    runs = "" if "unittest.main(" in test_code else "\n\nif __name__ == '__main__':\n  unittest.main()"
    return f"{code}\n\n{test_code}{runs}"


def _parse_unittest_output(output: str) -> ExecutionResult:
    """What the output of tests says about them."""
    if "FAILED" in output or "OK" not in output:
        return ExecutionResult(False, output)
    ran = re.search(r"Ran (\d+) tests?", output)
    return ExecutionResult(True, f"{ran.group(1) if ran else 'all'} tests passed")


class BaseFormatter:
    """Joins messages; `after` is what follows those of the system and, but for the last message, the assistant."""

    after = ""

    def format(self, messages: Sequence[Message], output_mode: str = "string") -> str:
        """The messages as one text; white space around the last one goes."""
        if output_mode != "string":
            raise ValueError(f"output_mode {output_mode!r} is not known here; use 'string'")
        *before, last = messages
        texts = [message.content + ("" if message.role is Role.USER else self.after) for message in before]
        ends = self.after if last.role is Role.SYSTEM else ""
        return "".join([*texts, last.content + ends if last.role is Role.SYSTEM else last.content.strip()])


class ConcatFormatter(BaseFormatter):
    """Puts an empty line after each message of the system and the assistant."""

    after = "\n\n"
