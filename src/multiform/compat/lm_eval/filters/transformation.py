"""Filters that change the text of each answer."""

from __future__ import annotations

from multiform.compat.lm_eval.filters.builtin import BuiltinFilter


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
