"""Stand-ins for what scores answers and cannot be installed or needs the network: requests are made without it.

Task files import it beside the functions that make prompts; with these, both sides can load them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any
from unittest import mock

#: Packages that the extra `parity` does not install.
PACKAGES = (
    # lm-eval[acpbench] wants another antlr4 than lm-eval[math].
    "kstar_planner",
    "lark",
    "pddl",
    "tarski",
    # In no package index.
    "tinyBenchmarks",
    # Of no use without language models that have to be downloaded.
    "spacy",
    "iso639",
    "radgraph",
)
#: Programs that task files look for when they are imported.
_PROGRAMS = ("swipl",)


class _Refusing:
    """Stands in for a function or a class: it can be called and subclassed, but nothing can be done with the result."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError(f"{type(self).__module__}.{type(self).__name__} only stands in for what is not installed")

    __bool__ = __call__ = __float__ = __getitem__ = __iter__ = __len__ = _refuse


class _Module(types.ModuleType):
    """A module that has any name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Refusing,), {"__module__": self.__name__})


class _Finder(MetaPathFinder, Loader):
    """Finds these packages and whatever is imported from them."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


class _Metric:
    """A metric of `evaluate`, some of which are tried out when they are loaded."""

    def compute(self, **kwargs: Any) -> Any:
        return {}, {}


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Has the stand-ins in place of what is not there."""
    finder = _Finder([name for name in PACKAGES if importlib.util.find_spec(name) is None])
    which = shutil.which

    def found(name: str, *args: Any, **kwargs: Any) -> str | None:
        return which(name, *args, **kwargs) or (name if name in _PROGRAMS else None)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "meta_path", [*sys.meta_path, finder]))
        stack.enter_context(mock.patch.object(shutil, "which", found))
        if importlib.util.find_spec("evaluate") is not None:
            stack.enter_context(mock.patch("evaluate.load", return_value=_Metric()))
        if importlib.util.find_spec("datasets") is not None:  # gone since datasets 3
            stack.enter_context(mock.patch("datasets.load_metric", return_value=_Metric(), create=True))
        try:
            yield
        finally:
            for name in [name for name, module in sys.modules.items() if isinstance(module, _Module)]:
                del sys.modules[name]
