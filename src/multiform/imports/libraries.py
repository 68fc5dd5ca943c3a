"""Libraries as task files expect them: modules that newer releases removed, and `evaluate` with a sandboxed metric."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Our module under the name of the one that is gone; None stands for a package that only holds others.
_REMOVED = {
    "transformers.data.metrics": None,
    "transformers.data.metrics.squad_metrics": "multiform.imports.squad_metrics",
}


class _RemovedFinder(MetaPathFinder, Loader):
    """Finds removed modules; it is the last finder, so that a library that still has one takes precedence."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _REMOVED:
            return None
        return ModuleSpec(fullname, self, is_package=_REMOVED[fullname] is None)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with the names of ours."""
        replacements = _REMOVED[module.__name__]
        names = vars(importlib.import_module(replacements)) if replacements is not None else {}
        vars(module).update({name: value for name, value in names.items() if not name.startswith("_")})


_finder = _RemovedFinder()


@contextmanager
def with_removed_modules() -> Iterator[None]:
    """Provide removed modules while the file of a task is loaded."""
    outermost = _finder not in sys.meta_path
    if outermost:
        sys.meta_path.append(_finder)
    try:
        yield
    finally:
        if outermost:
            sys.meta_path.remove(_finder)


class _Evaluate(ModuleType):
    """The library `evaluate`, where it is installed, but for the metric that runs programs."""

    def __init__(self) -> None:
        super().__init__("evaluate", "The library evaluate in a task's file: code_eval runs programs in a sandbox.")

    def load(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Load a metric."""
        if path != "code_eval":
            return self.__getattr__("load")(path, *args, **kwargs)
        from multiform.sandbox import CodeEval  # it is rarely needed, and starts processes

        return CodeEval()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec("evaluate") is None:
            raise AttributeError(name)
        return getattr(_library(), name)


def _library() -> ModuleType:
    """The library itself, imported under its own name."""
    replacement = sys.modules.pop("evaluate", None)
    try:
        return importlib.import_module("evaluate")
    finally:
        if replacement is not None:
            sys.modules["evaluate"] = replacement


@contextmanager
def with_sandboxed_code_eval() -> Iterator[None]:
    """Have `evaluate.load("code_eval")` run programs in our sandbox, while the file of a task is loaded."""
    before = sys.modules.get("evaluate")
    sys.modules["evaluate"] = _Evaluate()
    try:
        yield
    finally:
        del sys.modules["evaluate"]
        if before is not None:
            sys.modules["evaluate"] = before
