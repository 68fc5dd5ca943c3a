"""Reductions: how the values of repeated answers to one document become one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.registry import Registry

Reduction = Callable[[Sequence[Any]], Any]

reductions: Registry[Reduction] = Registry("reduction")
register_reduction = reductions.register

_STEPS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


def build_reduction(given: str | Reduction | None) -> Reduction:
    """A registered reduction, ``pass@k`` for one k, a function, or the first value."""
    if given is None:
        return take_first
    if callable(given):
        return given
    if given.startswith("pass@") and given[5:].isdigit() and int(given[5:]) > 0:
        k = int(given[5:])
        return lambda values: {given: pass_at(values, k)}
    if given not in reductions:
        hint = nearest(given, [*reductions, "pass@1"], listed="reductions")
        raise ConfigError(f"unknown reduction '{given}'", hint=hint)
    return reductions.get(given)


@register_reduction("take_first")
def take_first(values: Sequence[Any]) -> Any:
    """The first value."""
    return values[0]


@register_reduction("mean")
def mean(values: Sequence[float]) -> float:
    """The mean of the values."""
    return math.fsum(values) / len(values)


@register_reduction("max")
def highest(values: Sequence[float]) -> float:
    """The highest value."""
    return max(values)


@register_reduction("min")
def lowest(values: Sequence[float]) -> float:
    """The lowest value."""
    return min(values)


@register_reduction("majority_vote")
def majority_vote(values: Sequence[Any]) -> Any:
    """The most frequent value, the first of equals."""
    return Counter(values).most_common(1)[0][0]


@register_reduction("pass@k")
def pass_at_k(values: Sequence[float]) -> dict[str, float]:
    """The chance that one of k answers is right, for several k up to the number of repeats.

    >>> pass_at_k([1, 0, 1, 0])
    {'pass@1': 0.5, 'pass@3': 1.0, 'pass@4': 1.0}
    """
    ks = sorted({*(k for k in _STEPS if k < len(values)), len(values)})
    return {f"pass@{k}": pass_at(values, k) for k in ks}


def pass_at(values: Sequence[float], k: int) -> float:
    """The unbiased estimate of pass@k: one minus the chance that k draws without replacement all fail."""
    n, right = len(values), sum(1 for value in values if value)
    if k > n:
        raise ConfigError(f"pass@{k} needs {k} repeats, there are {n}", hint=f"set repeats: {k} or more")
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)
