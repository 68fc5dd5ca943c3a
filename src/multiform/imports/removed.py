"""Modules that newer releases of a library no longer have, answered for the task files that import them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Our module under the name of the one that is gone; None stands for a package that only holds others.
_REMOVED = {
    "transformers.data.metrics": None,
    "transformers.data.metrics.squad_metrics": "multiform.imports.squad_metrics",
}


class _Removed(MetaPathFinder, Loader):
    """Finds what no other finder does."""

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
        ours = _REMOVED[module.__name__]
        names = vars(importlib.import_module(ours)) if ours is not None else {}
        vars(module).update({name: value for name, value in names.items() if not name.startswith("_")})


_finder = _Removed()


@contextmanager
def answered() -> Iterator[None]:
    """Answer imports of removed modules; where a library still has one, its own is found first."""
    outermost = _finder not in sys.meta_path
    if outermost:
        sys.meta_path.append(_finder)
    try:
        yield
    finally:
        if outermost:
            sys.meta_path.remove(_finder)
