"""Filters that choose among the responses to a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from multiform.errors import ConfigError
from multiform.fields import Doc
from multiform.scoring.filters.base import Filter, register_filter


@register_filter("noop")
def noop() -> Filter:
    """Leaves the responses as they are."""
    return lambda outputs, doc: list(outputs)


@register_filter("take_first")
def take_first() -> Filter:
    """Keeps the first response."""
    return lambda outputs, doc: list(outputs[:1])


@register_filter("take_first_k")
def take_first_k(k: int) -> Filter:
    """Keeps the first k responses."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"take_first_k: k is {k!r}", hint="give a whole number of 1 or more")

    def take(outputs: Sequence[Any], doc: Doc) -> list[Any]:
        if len(outputs) < k:
            message = f"take_first_k wants {k} outputs and there are {len(outputs)}"
            raise ConfigError(message, hint=f"set repeats: {k} or more")
        return list(outputs[:k])

    return take


@register_filter("majority_vote")
def majority_vote() -> Filter:
    """Keeps the most frequent response, the first of equals."""
    return lambda outputs, doc: [Counter(outputs).most_common(1)[0][0]] if outputs else []


@register_filter("decontaminate")
def decontaminate(path: str) -> Filter:
    """Refused: lm-eval's filter of this name returns nothing, so there is no result to agree with."""
    raise ConfigError("filter 'decontaminate' is not supported", hint="remove it; lm-eval's does nothing either")
