"""The built-in filters, as classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from multiform.compat.lm_eval.api.filter import FilterEnsemble
from multiform.compat.lm_eval.filters import custom, extraction, selection, transformation

__all__ = ["build_filter_ensemble", "custom", "extraction", "selection", "transformation"]


def build_filter_ensemble(
    filter_name: str, components: Iterable[tuple[Any, Mapping[str, Any] | None]]
) -> FilterEnsemble:
    """Filters by their names and arguments, as one."""
    from multiform.compat.lm_eval.api.registry import get_filter

    return FilterEnsemble(filter_name, [partial(get_filter(name), **(kwargs or {})) for name, kwargs in components])
