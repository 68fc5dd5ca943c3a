"""Filters that read an answer out of the text."""

from __future__ import annotations

import re
from typing import Any

from multiform.compat.lm_eval.api.filter import Filter
from multiform.compat.lm_eval.filters.builtin import BuiltinFilter
from multiform.scoring.filters.extraction import DEFAULT_PATTERN, INVALID

__all__ = ["Filter", "MultiChoiceRegexFilter", "POSFilter", "RegexFilter", "WhitespaceFilter"]


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
