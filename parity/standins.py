"""Stand-ins for what scores answers and is not installed or needs the network: requests are made without it.

Task files import it beside the functions that make prompts; with these, both sides can load them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

#: Modules, and the distribution whose version is asked for.
_MODULES = {"math_verify": "math-verify", "antlr4": "antlr4-python3-runtime"}
_VERSION = "4.11"


class _Module(types.ModuleType):
    """A module that has any function; none of them can be called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(f"{self.__name__}.{name} is not installed: this only stands in for it")

        return refuse


class _Metric:
    """A metric of `evaluate`, some of which are tried out when they are loaded."""

    def compute(self, **kwargs: Any) -> Any:
        return {}, {}


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Has the stand-ins in place of what is not there."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    absent = {_MODULES[name] for name in missing}
    real = importlib.metadata.version

    def version(name: str) -> str:
        return _VERSION if name in absent else real(name)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, {name: _Module(name) for name in missing}))
        stack.enter_context(mock.patch.object(importlib.metadata, "version", version))
        if importlib.util.find_spec("evaluate") is not None:
            stack.enter_context(mock.patch("evaluate.load", return_value=_Metric()))
        yield
