"""lm-eval's Python interface, provided by Multiform; docs/lm-eval.md lists what there is."""

from __future__ import annotations

from typing import Any

from multiform.imports.finder import import_provided, is_provided

#: The version of lm-eval whose interface this is.
__version__ = "0.4.13"
__multiform__ = True

__all__ = ["__version__", "evaluate", "simple_evaluate"]


def __getattr__(name: str) -> Any:
    """The two entry points and the modules of lm-eval, imported when they are used."""
    if name in ("evaluate", "simple_evaluate"):
        return getattr(import_provided("lm_eval.evaluator"), name)
    if name.startswith("__") or not is_provided(f"lm_eval.{name}"):
        raise AttributeError(f"module 'lm_eval', provided by Multiform, has no attribute {name!r}")
    return import_provided(f"lm_eval.{name}")
