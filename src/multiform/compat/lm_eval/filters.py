"""Filter, the base class of filters over the responses to many documents, and the built-in filters as classes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.models.foreign import LMEvalInstance as Instance
from multiform.scoring.filters import DEFAULT_PATTERN, INVALID, filters


class Filter(ABC):
    """Changes the responses to many documents; each document has a list of them, one for each repeat."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027 - a filter need not take arguments
        """Take the arguments that a task gives the filter."""

    @abstractmethod
    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        """The filtered responses, in the same order."""


@dataclass
class FilterEnsemble:
    """Filters that run one after the other, under one name."""

    name: str
    filters: list[Callable[[], Filter]]

    def apply(self, instances: Sequence[Instance]) -> None:
        """Put the filtered responses of the instances into their `filtered_resps`."""
        responses: Iterable[Any] = [instance.resps for instance in instances]
        docs = [instance.doc for instance in instances]
        for step in self.filters:
            responses = step().apply(responses, docs)
        for instance, filtered in zip(instances, responses, strict=True):
            instance.filtered_resps[self.name] = filtered


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


class POSFilter(BuiltinFilter):
    """Keeps the tags of pairs of token and tag."""

    function = "regex_pos"


class WhitespaceFilter(BuiltinFilter):
    """Removes white space at the beginning and the end."""

    function = "remove_whitespace"


class MultiChoiceRegexFilter(RegexFilter):
    """Keeps the label of a choice: matched, spelled out, or after a colon."""

    function = "multi_choice_regex"

    def __init__(
        self,
        regex_pattern: str = DEFAULT_PATTERN,
        group_select: int = 0,
        fallback: str = INVALID,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: list[str] | None = None,
    ) -> None:
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore
        super().__init__(
            regex_pattern,
            group_select,
            fallback,
            ignore_case=ignore_case,
            ignore_punctuation=ignore_punctuation,
            regexes_to_ignore=regexes_to_ignore,
        )


class TakeFirstFilter(BuiltinFilter):
    """Keeps the first answer, by itself."""

    function = "take_first"
    single = True


class TakeKFilter(BuiltinFilter):
    """Keeps the first k answers."""

    function = "take_first_k"


class MajorityVoteFilter(BuiltinFilter):
    """Keeps the most frequent answer, in a list."""

    function = "majority_vote"


class LowercaseFilter(BuiltinFilter):
    """Lower-cases the text."""

    function = "lowercase"


class UppercaseFilter(BuiltinFilter):
    """Upper-cases the text."""

    function = "uppercase"


class MapFilter(BuiltinFilter):
    """Looks the text up in a table."""

    function = "map"


class SPANFilter(BuiltinFilter):
    """Brings named entities into one form."""

    function = "format_span"


class CustomFilter(Filter):
    """Calls ``filter_fn(resps, docs)``."""

    def __init__(self, *, filter_fn: Callable[..., Iterable[Any]], **kwargs: Any) -> None:
        self.filter_fn = filter_fn
        self.kwargs = kwargs

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        return self.filter_fn(resps, docs, **self.kwargs)
