"""Answers `evaluate.load("code_eval")` in the files of tasks, so that programs of models run without rights."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from multiform.execution import CodeEval


class _Evaluate(ModuleType):
    """The library `evaluate`, where it is installed, but for the metric that runs programs."""

    def __init__(self) -> None:
        super().__init__("evaluate", "Multiform's answer to the library evaluate in a task's file.")

    def load(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Load a metric."""
        return CodeEval() if path == "code_eval" else self.__getattr__("load")(path, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec("evaluate") is None:
            raise AttributeError(name)
        return getattr(_library(), name)


def _library() -> ModuleType:
    """The library itself, imported under its own name."""
    ours = sys.modules.pop("evaluate", None)
    try:
        return importlib.import_module("evaluate")
    finally:
        if ours is not None:
            sys.modules["evaluate"] = ours


@contextmanager
def answered() -> Iterator[None]:
    """Answer while the file of a task is loaded."""
    before = sys.modules.get("evaluate")
    sys.modules["evaluate"] = _Evaluate()
    try:
        yield
    finally:
        del sys.modules["evaluate"]
        if before is not None:
            sys.modules["evaluate"] = before
