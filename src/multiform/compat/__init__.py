"""The names of other harnesses, answered by this package where the harness itself is not installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Protocol

from multiform.config.functions import load_module
from multiform.errors import UsageError, nearest
from multiform.imports import eval_framework, lm_eval


class _Answering(Protocol):
    """A module that answers the imports of a package."""

    def install(self, *, load: Callable[[Path], ModuleType], instead: bool = False) -> bool: ...

    def uninstall(self) -> None: ...


_ANSWERED: dict[str, _Answering] = {lm_eval.PACKAGE: lm_eval, eval_framework.PACKAGE: eval_framework}


def install(package: str, *, instead: bool = False) -> bool:
    """Have `import package` find our names; False, and nothing is done, where the real one is installed.

    With `instead`, the import finds ours also where the real package is installed.

    >>> install("eval_framework")
    True
    >>> from eval_framework.tasks.task_style import ClozeStyle
    >>> ClozeStyle().get_cue_text()
    'Answer:'
    """
    return _answering(package, "install").install(load=load_module, instead=instead)


def uninstall(package: str) -> None:
    """Leave the package's name to whoever else answers it."""
    _answering(package, "uninstall").uninstall()


def _answering(package: str, where: str) -> _Answering:
    if package not in _ANSWERED:
        hint = nearest(package, list(_ANSWERED), listed="there are")
        raise UsageError(f"no names of '{package}' here", where=where, hint=hint)
    return _ANSWERED[package]
