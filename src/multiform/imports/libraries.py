"""Libraries as task files expect them: modules that newer releases removed, and `evaluate` with a sandboxed metric.

Transformers 5 no longer has `transformers.data.metrics.squad_metrics`, which task files still import.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def _with_modules(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have these modules imported by their names, in a block."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def with_removed_modules() -> AbstractContextManager[None]:
    """Provide removed modules while the file of a task is loaded."""
    squad_metrics = importlib.import_module("multiform.compat.lm_eval.metrics")
    package = ModuleType("transformers.data.metrics")
    vars(package).update({"squad_metrics": squad_metrics, "__path__": []})
    return _with_modules({package.__name__: package, f"{package.__name__}.squad_metrics": squad_metrics})


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


def with_sandboxed_code_eval() -> AbstractContextManager[None]:
    """Have `evaluate.load("code_eval")` run programs in our sandbox, while the file of a task is loaded."""
    return _with_modules({"evaluate": _Evaluate()})
