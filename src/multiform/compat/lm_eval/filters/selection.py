"""Filters that choose among the answers of a document."""

from __future__ import annotations

from multiform.compat.lm_eval.filters.builtin import BuiltinFilter


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
