"""The filter that calls a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multiform.compat.lm_eval.api.filter import Filter


class CustomFilter(Filter):
    """Calls ``filter_fn(resps, docs)``."""

    def __init__(self, *, filter_fn: Callable[..., Iterable[Any]], **kwargs: Any) -> None:
        self.filter_fn = filter_fn
        self.kwargs = kwargs

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        return self.filter_fn(resps, docs, **self.kwargs)
