"""lm-eval's Python interface, provided by Multiform; docs/lm-eval.md lists what there is."""

from __future__ import annotations

from typing import Any

#: The version of lm-eval whose interface this is.
__version__ = "0.4.13"
__multiform__ = True

__all__ = ["__version__", "evaluate", "simple_evaluate"]


def __getattr__(name: str) -> Any:
    """The two entry points, imported when they are used."""
    if name not in ("evaluate", "simple_evaluate"):
        raise AttributeError(f"module 'lm_eval', provided by Multiform, has no attribute {name!r}")
    from multiform.compat.lm_eval import evaluator

    return getattr(evaluator, name)
