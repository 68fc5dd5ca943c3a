"""Reductions: from the values of all repeats of a document to one value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, DataError, nearest, running
from multiform.registry import Registry

ReductionFn = Callable[[Sequence[Any]], Any]

reductions: Registry[ReductionFn] = Registry("reduction")
register_reduction = reductions.register


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Reduces the values of a document's repeats to one value, or to one of each name; errors show `name`."""

    name: str
    function: ReductionFn
    #: The smallest number of values that it can reduce.
    needs: int = 1

    def __call__(self, values: Sequence[Any]) -> Any:
        with running(f"reduction '{self.name}'", hint="call it with the list of one document's values to debug it"):
            value = self.function(values)
        if value is None:
            raise DataError(f"reduction '{self.name}' returned None", hint="return a number, or a dict of numbers")
        return value


_STEPS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


def build_reduction(spec: str | ReductionFn) -> Reduction:
    """The reduction of a registered name, of ``pass@k`` with a number for k, or of a function."""
    if isinstance(spec, Reduction):
        return spec
    if callable(spec):
        return _check_reduction(name_of(spec), spec)
    if spec.startswith("pass@") and spec[5:].isdigit() and int(spec[5:]) > 0:
        k = int(spec[5:])
        return Reduction(name=spec, function=lambda values: {spec: pass_at(values, k)}, needs=k)
    if spec not in reductions:
        hint = nearest(spec, [*reductions, "pass@1"], listed="reductions")
        raise ConfigError(f"unknown reduction '{spec}'", hint=hint)
    return _check_reduction(spec, reductions.get(spec))


def _check_reduction(name: str, function: ReductionFn) -> Reduction:
    problem = mismatch(function, [])
    if problem is not None:
        message = f"reduction '{name}' cannot be called with the list of a document's values: {problem}"
        raise ConfigError(message, hint="write it as def reduction(values)")
    return Reduction(name=name, function=function)


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
    """The probability that at least one of k responses is correct, for several k up to the number of repeats.

    >>> pass_at_k([1, 0, 1, 0])
    {'pass@1': 0.5, 'pass@3': 1.0, 'pass@4': 1.0}
    """
    ks = sorted({*(k for k in _STEPS if k < len(values)), len(values)})
    return {f"pass@{k}": pass_at(values, k) for k in ks}


def pass_at(values: Sequence[float], k: int) -> float:
    """The unbiased estimate of pass@k: one minus the probability that k draws without replacement all fail."""
    n, right = len(values), sum(1 for value in values if value)
    if k > n:
        raise ConfigError(f"pass@{k} needs {k} repeats, there are {n}", hint=f"set repeats: {k} or more")
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)
