"""The packages of other harnesses, provided by this one where the harness itself is not installed."""

from __future__ import annotations

import multiform.tasks.functions  # noqa: F401 - it sets how finders load the files of tasks
from multiform.errors import UsageError, nearest
from multiform.imports import PackageFinder, eval_framework_finder, lm_eval_finder

_FINDERS: dict[str, PackageFinder] = {finder.packages[0]: finder for finder in (lm_eval_finder, eval_framework_finder)}


def install(package: str, *, instead: bool = False) -> bool:
    """Provide a package, `lm_eval` or `eval_framework`; False, and nothing is done, where the real one is installed.

    With `instead`, the real package is replaced.

    >>> install("eval_framework")
    True
    >>> from eval_framework.tasks.task_style import ClozeStyle
    >>> ClozeStyle().get_cue_text()
    'Answer:'
    """
    return _finder(package, "install").install(instead=instead)


def uninstall(package: str) -> None:
    """Provide a package no longer."""
    _finder(package, "uninstall").uninstall()


def _finder(package: str, where: str) -> PackageFinder:
    if package not in _FINDERS:
        hint = nearest(package, list(_FINDERS), listed="there are")
        raise UsageError(f"no names of '{package}' here", where=where, hint=hint)
    return _FINDERS[package]
