"""The names of other harnesses, answered by this package where the harness itself is not installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from multiform.compat import finder
from multiform.errors import UsageError, nearest

#: What each package's modules hold, by the full name of the module.
Tree = Mapping[str, Mapping[str, Any]]


def install(package: str, *, instead: bool = False) -> bool:
    """Have `import package` find our names; False, and nothing is done, where the real one is installed.

    With `instead`, `import lm_eval` finds ours also where lm-eval is installed.

    >>> install("eval_framework")
    True
    >>> from eval_framework.tasks.task_style import ClozeStyle
    >>> ClozeStyle().get_cue_text()
    'Answer:'
    """
    if package == finder.PACKAGE:
        from multiform.config.functions import load_module

        return finder.install(load=load_module, instead=instead)
    if package not in _TREES:
        known = [*_TREES, finder.PACKAGE]
        raise UsageError(
            f"no names of '{package}' here", where="install", hint=nearest(package, known, listed="there are")
        )
    present = sys.modules.get(package)
    if present is not None:
        return bool(getattr(present, "__multiform__", False))
    if importlib.util.find_spec(package) is not None:
        return False
    for name, names in _with_parents(_TREES[package]()).items():
        module = ModuleType(name, f"{name}, answered by multiform.")
        module.__dict__.update(names, __multiform__=True, __path__=[])
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return True


def _with_parents(tree: Tree) -> dict[str, Mapping[str, Any]]:
    """The tree with the packages that its modules are in, each before what is in it."""
    names = {name.rsplit(".", depth)[0] for name in tree for depth in range(name.count(".") + 1)}
    return {name: tree.get(name, {}) for name in sorted(names)}


def _eval_framework() -> Tree:
    from multiform.compat.eval_framework import tree

    return tree()


_TREES: dict[str, Callable[[], Tree]] = {"eval_framework": _eval_framework}
