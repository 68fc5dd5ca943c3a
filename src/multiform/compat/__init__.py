"""The names of other harnesses, answered by this package where the harness itself is not installed."""

from __future__ import annotations

from typing import Protocol

from multiform.compat import finder, packages
from multiform.errors import UsageError, nearest


class _Answering(Protocol):
    """A module that answers the imports of a package."""

    def uninstall(self) -> None: ...


_ANSWERED: dict[str, _Answering] = {finder.PACKAGE: finder, packages.PACKAGE: packages}


def install(package: str, *, instead: bool = False) -> bool:
    """Have `import package` find our names; False, and nothing is done, where the real one is installed.

    With `instead`, the import finds ours also where the real package is installed.

    >>> install("eval_framework")
    True
    >>> from eval_framework.tasks.task_style import ClozeStyle
    >>> ClozeStyle().get_cue_text()
    'Answer:'
    """
    if package == finder.PACKAGE:
        from multiform.config.functions import load_module

        return finder.install(load=load_module, instead=instead)
    _module(package, "install")
    return packages.install(instead=instead)


def uninstall(package: str) -> None:
    """Leave the package's name to whoever else answers it."""
    _module(package, "uninstall").uninstall()


def _module(package: str, where: str) -> _Answering:
    if package not in _ANSWERED:
        hint = nearest(package, list(_ANSWERED), listed="there are")
        raise UsageError(f"no names of '{package}' here", where=where, hint=hint)
    return _ANSWERED[package]
