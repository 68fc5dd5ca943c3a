"""Whether both sides answered the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

#: How far log-likelihoods should be apart at most for each token: about the error of float32's log-softmax.
PER_TOKEN = 3e-5
#: Beyond this it is no rounding.
WRONG = 1e-4


def differences(
    requests: Sequence[Sequence[Any]], ours: Sequence[Any], theirs: Sequence[Any], scored: Sequence[int]
) -> list[str]:
    """What cannot be rounding, in words; nothing where both sides agree."""
    if len(ours) != len(theirs):
        return [f"{len(ours)} answers against {len(theirs)}"]
    if not isinstance(requests[0][1], str):
        return [f"text {i}: {a!r} != {b!r}" for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    found = []
    for i, ((mine, my_flag), (other, flag)) in enumerate(zip(ours, theirs, strict=True)):
        if my_flag != flag:
            found.append(f"greedy flag {i}: {my_flag} != {flag}")
        if not abs(mine - other) <= WRONG * max(1, scored[i]):
            found.append(f"log-likelihood {i}: {mine:.6f} != {other:.6f} with {scored[i]} tokens")
    if picks(requests, ours) != picks(requests, theirs):
        found.append("picks differ")
    return found


def picks(requests: Sequence[Sequence[Any]], answers: Sequence[Any]) -> list[int]:
    """The likeliest continuation of each context."""
    made = []
    for _, group in groupby(range(len(requests)), key=lambda i: requests[i][0]):
        scores = [answers[i][0] for i in group]
        made.append(scores.index(max(scores)))
    return made


def errors(ours: Sequence[Any], theirs: Sequence[Any], scored: Sequence[int]) -> list[float]:
    """The differences of log-likelihoods per token."""
    return [abs(a[0] - b[0]) / max(1, n) for a, b, n in zip(ours, theirs, scored, strict=True)]
