"""What the classes of built-in filters share: one of ours, applied to one document after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from multiform.compat.lm_eval.api.filter import Filter
from multiform.scoring.filters import filters


class BuiltinFilter(Filter):
    """A registered filter as a class; `single` ones leave one answer of a document, by itself."""

    function: ClassVar[str]
    single: ClassVar[bool] = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._apply: Any = filters.get(self.function)(*args, **kwargs)

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[Any]:
        filtered = [list(self._apply(list(responses), doc)) for responses, doc in zip(resps, docs, strict=False)]
        return [responses[0] for responses in filtered] if self.single else filtered
