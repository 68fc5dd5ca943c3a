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
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
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
    return token_f1(get_tokens(a_gold), get_tokens(a_pred))


def token_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The same of two lists of words."""
    if not gold or not predicted:
        return float(not gold and not predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return (2 * precision * recall) / (precision + recall)


#: What the modules that are gone had; nothing stands for a package that only holds others.
_REMOVED: dict[str, tuple[Callable[..., Any], ...]] = {
    "transformers.data.metrics": (),
    "transformers.data.metrics.squad_metrics": (normalize_answer, get_tokens, compute_exact, compute_f1),
}


class _RemovedFinder(MetaPathFinder, Loader):
    """Finds removed modules; it is the last finder, so that a library that still has one takes precedence."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _REMOVED:
            return None
        return ModuleSpec(fullname, self, is_package=not _REMOVED[fullname])

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with our functions."""
        vars(module).update({function.__name__: function for function in _REMOVED[module.__name__]})


_finder = _RemovedFinder()


@contextmanager
def with_removed_modules() -> Iterator[None]:
    """Provide removed modules while the file of a task is loaded."""
    outermost = _finder not in sys.meta_path
    if outermost:
        sys.meta_path.append(_finder)
    try:
        yield
    finally:
        if outermost:
            sys.meta_path.remove(_finder)


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


@contextmanager
def with_sandboxed_code_eval() -> Iterator[None]:
    """Have `evaluate.load("code_eval")` run programs in our sandbox, while the file of a task is loaded."""
    before = sys.modules.get("evaluate")
    sys.modules["evaluate"] = _Evaluate()
    try:
        yield
    finally:
        del sys.modules["evaluate"]
        if before is not None:
            sys.modules["evaluate"] = before
