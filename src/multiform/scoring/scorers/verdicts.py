"""Verdicts: extract the grade from the response of a judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiform.errors import ConfigError, shorten

#: "Verdict: CORRECT", "**Score:** 7", "Score: 7/10"; the verdict is the first group that matched.
DEFAULT_PATTERN = (
    r"(?i)(?:verdict|score|grade)[\s*_`\"]*(?:is|:|=)[\s*_`\"(\[]*"
    r"(correct|incorrect|-?\d+(?:\.\d+)?(?:\s*/\s*\d+(?:\.\d+)?)?)(?!\w)"
)
VERDICTS: Mapping[str, float] = {
    "correct": 1.0,
    "incorrect": 0.0,
    "right": 1.0,
    "wrong": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "true": 1.0,
    "false": 0.0,
    "pass": 1.0,
    "fail": 0.0,
}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*/\s*(\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Scale:
    """The lowest and the highest score of a judge; 0 and 1 by default."""

    low: float = 0
    high: float = 1

    @classmethod
    def of(cls, spec: Any) -> Scale:
        """The scale of a number, which is the highest score, or of a pair of numbers.

        >>> Scale.of(10), Scale.of([1, 5]), Scale.of(None)
        (Scale(low=0, high=10), Scale(low=1, high=5), Scale(low=0, high=1))
        """
        if spec is None:
            return cls()
        ends = [0, spec] if not isinstance(spec, list | tuple) else spec
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        if len(ends) == 2 and numbers and ends[0] < ends[1]:
            return cls(*ends)
        message = f"expected the best score or [worst, best], got {shorten(spec)}"
        raise ConfigError(message, where="scorer.kwargs.scale", hint="write scale: 10, or scale: [1, 5]")

    def share(self, score: float) -> float | None:
        """The score as a number from 0 to 1; None where it is not on the scale."""
        return (score - self.low) / (self.high - self.low) if self.low <= score <= self.high else None


def words(spec: Any) -> dict[str, float]:
    """The words of `verdicts:` in lower case, with their values from 0 to 1."""
    if isinstance(spec, Mapping) and all(isinstance(v, int | float) and 0 <= v <= 1 for v in spec.values()):
        return {str(word).casefold(): float(value) for word, value in spec.items()}
    message = f"expected words with their values from 0 to 1, got {shorten(spec)}"
    raise ConfigError(message, where="scorer.kwargs.verdicts", hint="write verdicts: {good: 1, fair: 0.5, poor: 0}")


def read_verdict(text: str, pattern: re.Pattern[str], worth: Mapping[str, float], scale: Scale) -> float | None:
    """The last verdict of a text as a number from 0 to 1, or None where it has none.

    >>> default = re.compile(DEFAULT_PATTERN)
    >>> read_verdict("Verdict: CORRECT? No.\\nVerdict: INCORRECT", default, VERDICTS, Scale())
    0.0
    >>> read_verdict("**Score:** 4", default, VERDICTS, Scale(1, 5)), read_verdict("Score: 8/10", default, {}, Scale())
    (0.75, 0.8)
    >>> read_verdict("It depends.", default, VERDICTS, Scale()) is None
    True
    """
    matches = list(pattern.finditer(text))
    if not matches:
        return None
    last = matches[-1]
    verdict = next((group for group in last.groups() if group), last[0]).strip()
    if verdict.casefold() in worth:
        return worth[verdict.casefold()]
    number = _NUMBER.fullmatch(verdict)
    if number is None:
        return None
    if number[2] and float(number[2]) not in (0, scale.high):
        return Scale(0, float(number[2])).share(float(number[1]))  # "8/10" brings its own scale along
    return scale.share(float(number[1]))
