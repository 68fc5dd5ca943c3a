"""Reductions: from the values of all repeats of a document to one value."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, DataError, nearest, running
from multiform.registry import Registry

ReductionFn = Callable[[Sequence[Any]], Any]

reductions: Registry[ReductionFn] = Registry("reduction")
register_reduction = reductions.register


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Reduces the values of a document's repeats to one value, or to one of each name; errors show `name`."""

    name: str
    function: Callable[..., Any]
    #: The smallest number of values that it can reduce.
    needs: int = 1
    #: Whether it counts how often repeats have the same answer.
    counts_answers: bool = False

    def __call__(self, values: Sequence[Any], answers: Sequence[Any] | None = None) -> Any:
        """The reduced value; `answers` are those of the responses, None for a response without one."""
        if self.counts_answers and answers is None:
            message = f"{self.name} counts the answers of repeats, and these values have none"
            raise ConfigError(message, where="metric_list", hint="use pass@k or avg@k")
        with running(f"reduction '{self.name}'", hint="call it with the list of one document's values to debug it"):
            value = self.function(values, answers) if self.counts_answers else self.function(values)
        if value is None:
            raise DataError(f"reduction '{self.name}' returned None", hint="return a number, or a dict of numbers")
        return value


_STEPS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


def build_reduction(spec: str | ReductionFn) -> Reduction:
    """The reduction of a registered name, or of a function.

    ``pass@8``, ``avg@8`` and ``maj@8`` (``cons@8``) have a number for k; several are joined by ``+``.
    """
    if isinstance(spec, Reduction):
        return spec
    if callable(spec):
        return _check_reduction(name_of(spec), spec)
    if all(_AT_K.fullmatch(part) for part in spec.split("+")):
        ks = {part: int(part.partition("@")[2]) for part in spec.split("+")}

        def reduce(values: Sequence[float], answers: Sequence[Any] = ()) -> dict[str, float]:
            return {part: _at_k(part.partition("@")[0], values, answers, k) for part, k in ks.items()}

        counts_answers = any(part.startswith(("maj", "cons")) for part in ks)
        return Reduction(name=spec, function=reduce, needs=max(ks.values()), counts_answers=counts_answers)
    if spec not in reductions:
        hint = nearest(spec, [*reductions, "pass@1", "avg@1", "maj@1"], listed="reductions")
        raise ConfigError(f"unknown reduction '{spec}'", hint=hint)
    return _check_reduction(spec, reductions.get(spec))


def _check_reduction(name: str, function: ReductionFn) -> Reduction:
    what = f"reduction '{name}' cannot be called with the list of a document's values"
    check_call(function, [], what=what, hint="write it as def reduction(values)")
    return Reduction(name=name, function=function)


@register_reduction("take_first")
def take_first(values: Sequence[Any]) -> Any:
    """The first value."""
    return values[0]


@register_reduction("mean")
def mean(values: Sequence[float]) -> float:
    """The mean of the values."""
    return math.fsum(values) / len(values)


register_reduction("max")(max)
register_reduction("min")(min)


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


_AT_K = re.compile(r"(?:pass|avg|maj|cons)@[1-9]\d*")


def _at_k(kind: str, values: Sequence[float], answers: Sequence[Any], k: int) -> float:
    if k > len(values):
        raise ConfigError(f"{kind}@{k} needs {k} repeats, there are {len(values)}", hint=f"set repeats: {k} or more")
    if kind == "pass":
        return pass_at(values, k)
    return math.fsum(values[:k]) / k if kind == "avg" else majority(values[:k], answers[:k])


def pass_at(values: Sequence[float], k: int) -> float:
    """The unbiased estimate of pass@k: one minus the probability that k draws without replacement all fail."""
    n, right = len(values), sum(1 for value in values if value)
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


def majority(values: Sequence[float], answers: Sequence[Any]) -> float:
    """The score of the most frequent answer; of several, the mean of theirs.

    Responses without an answer have no vote, and a document without any vote counts as wrong.

    >>> majority([0, 1, 1, 0], ["7", "4", "4", None]), majority([0, 1, 1, 0, 0], ["7", "4", "4", None, "7"])
    (1.0, 0.5)
    """
    scores: dict[str, list[float]] = {}
    for value, answer in zip(values, answers, strict=True):
        if answer is not None:
            scores.setdefault(repr(answer), []).append(float(value))
    most = max(map(len, scores.values()), default=0)
    tied = [listed[0] for listed in scores.values() if len(listed) == most]
    return math.fsum(tied) / len(tied) if tied else 0.0
