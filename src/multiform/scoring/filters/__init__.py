"""The registered filters, which are applied to a model's responses before they are scored."""

from multiform.scoring.filters.base import (
    Filter,
    FilterFactory,
    Pipeline,
    build_pipeline,
    custom,
    filters,
    register_filter,
)
from multiform.scoring.filters.extraction import multi_choice_regex, regex, regex_pos
from multiform.scoring.filters.functions import OverDocuments
from multiform.scoring.filters.selection import decontaminate, majority_vote, noop, take_first, take_first_k
from multiform.scoring.filters.text import format_span, lowercase, map_values, remove_whitespace, uppercase

__all__ = [
    "Filter",
    "FilterFactory",
    "OverDocuments",
    "Pipeline",
    "build_pipeline",
    "custom",
    "decontaminate",
    "filters",
    "format_span",
    "lowercase",
    "majority_vote",
    "map_values",
    "multi_choice_regex",
    "noop",
    "regex",
    "regex_pos",
    "register_filter",
    "remove_whitespace",
    "take_first",
    "take_first_k",
    "uppercase",
]
