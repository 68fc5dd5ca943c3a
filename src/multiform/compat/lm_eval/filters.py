"""Filter, the base class of filters over the responses to many documents, and the built-in filters as classes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from multiform.scoring.filters import DEFAULT_PATTERN, INVALID, filters


class Filter(ABC):
    """Changes the responses to many documents; each document has a list of them, one for each repeat."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027 - a filter need not take arguments
        """Take the arguments that a task gives the filter."""

    @abstractmethod
    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        """The filtered responses, in the same order."""


class BuiltinFilter(Filter):
    """A registered filter as a class; `single` ones leave one answer of a document, by itself."""

    function: ClassVar[str]
    single: ClassVar[bool] = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._apply: Any = filters.get(self.function)(*args, **kwargs)

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[Any]:
        filtered = [list(self._apply(list(responses), doc)) for responses, doc in zip(resps, docs, strict=False)]
        return [responses[0] for responses in filtered] if self.single else filtered


class RegexFilter(BuiltinFilter):
    """Keeps what a regular expression finds; subclasses read its arguments off the object."""

    function = "regex"

    def __init__(
        self, regex_pattern: str = DEFAULT_PATTERN, group_select: int = 0, fallback: str = INVALID, **more: Any
    ) -> None:
        super().__init__(regex_pattern=regex_pattern, group_select=group_select, fallback=fallback, **more)
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback


def filter_class(name: str) -> type[BuiltinFilter]:
    """The class of a registered filter."""
    return type(f"{name}_filter", (BuiltinFilter,), {"function": name, "single": name == "take_first"})


LowercaseFilter = filter_class("lowercase")
MajorityVoteFilter = filter_class("majority_vote")
MapFilter = filter_class("map")
MultiChoiceRegexFilter = filter_class("multi_choice_regex")
POSFilter = filter_class("regex_pos")
SPANFilter = filter_class("format_span")
TakeFirstFilter = filter_class("take_first")
TakeKFilter = filter_class("take_first_k")
UppercaseFilter = filter_class("uppercase")
WhitespaceFilter = filter_class("remove_whitespace")
