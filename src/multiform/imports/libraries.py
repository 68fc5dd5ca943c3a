"""Libraries as task files expect them: modules that newer releases removed, and `evaluate` with a sandboxed metric.

Transformers 5 no longer has `transformers.data.metrics.squad_metrics`, which task files still import.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(s: str) -> str:
    """The text in lower case, without punctuation and articles, its words one space apart.

    >>> normalize_answer("The  Eiffel-Tower, an icon.")
    'eiffeltower icon'
    """
    return " ".join(_ARTICLES.sub(" ", s.lower().translate(_PUNCTUATION)).split())


def get_tokens(s: str) -> list[str]:
    """The words of the normalized text."""
    return normalize_answer(s).split() if s else []


def compute_exact(a_gold: str, a_pred: str) -> int:
    """1 where both are the same once normalized, else 0."""
    return int(normalize_answer(a_gold) == normalize_answer(a_pred))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """The harmonic mean of the precision and the recall of words; of two texts without any words, 1.

    >>> compute_f1("the red house", "a red car")
    0.5
    """
    gold, predicted = get_tokens(a_gold), get_tokens(a_pred)
    if not gold or not predicted:
        return float(not gold and not predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return (2 * precision * recall) / (precision + recall)


def _removed_modules() -> dict[str, ModuleType]:
    """The modules that are gone, with what task files use of them."""
    module = ModuleType("transformers.data.metrics.squad_metrics")
    vars(module).update({f.__name__: f for f in (normalize_answer, get_tokens, compute_exact, compute_f1)})
    package = ModuleType("transformers.data.metrics")
    vars(package).update({"squad_metrics": module, "__path__": []})
    return {package.__name__: package, module.__name__: module}


_REMOVED = _removed_modules()


@contextmanager
def _with_modules(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have these modules imported by their names, in a block."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def with_removed_modules() -> AbstractContextManager[None]:
    """Provide removed modules while the file of a task is loaded."""
    return _with_modules(_REMOVED)


class _Evaluate(ModuleType):
    """The library `evaluate`, where it is installed, but for the metric that runs programs."""

    def __init__(self) -> None:
        super().__init__("evaluate", "The library evaluate in a task's file: code_eval runs programs in a sandbox.")

    def load(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Load a metric."""
        if path != "code_eval":
            return self.__getattr__("load")(path, *args, **kwargs)
        from multiform.sandbox import CodeEval  # it is rarely needed, and starts processes

        return CodeEval()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec("evaluate") is None:
            raise AttributeError(name)
        return getattr(_library(), name)


def _library() -> ModuleType:
    """The library itself, imported under its own name."""
    replacement = sys.modules.pop("evaluate", None)
    try:
        return importlib.import_module("evaluate")
    finally:
        if replacement is not None:
            sys.modules["evaluate"] = replacement


def with_sandboxed_code_eval() -> AbstractContextManager[None]:
    """Have `evaluate.load("code_eval")` run programs in our sandbox, while the file of a task is loaded."""
    return _with_modules({"evaluate": _Evaluate()})
