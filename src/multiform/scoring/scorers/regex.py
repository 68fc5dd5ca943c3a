"""The scorer `regex`: compares what a regular expression finds in a completion."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, replace

from multiform.deadline import MAX_SECONDS, within
from multiform.scoring.filters.extraction import DEFAULT_PATTERN, INVALID, found
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, compiled, register_scorer
from multiform.scoring.scorers.final_answer import canonical_number

_PUNCTUATION = str.maketrans("", "", string.punctuation)


@register_scorer("regex")
@dataclass(kw_only=True, eq=False)
class Regex(ReadingScorer):
    """A match of a regular expression, compared without case and punctuation, and numbers as numbers.

    `regex_pattern` and `group_select` are those of the filter `regex`. Where a task has filters but no pattern, the
    filtered response is compared. The pattern is also applied to references that match it, such as worked solutions.
    """

    regex_pattern: str | None = None
    group_select: int = 0

    def __post_init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        if self.regex_pattern is not None or not self.pipeline.steps:
            self._pattern = compiled(self.regex_pattern or DEFAULT_PATTERN, "regex_pattern")

    def read(self, outcome: TextOutcome) -> str | None:
        if outcome.prediction == INVALID:
            return None
        return self._find(outcome.prediction) if self._pattern else str(outcome.prediction)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        known = tuple(self._find(reference) or reference for reference in outcome.references)
        return super().reading(replace(outcome, references=known))

    def canonical(self, text: str) -> str:
        number = canonical_number(text)
        return number if number is not None else " ".join(text.casefold().translate(_PUNCTUATION).split())

    def _find(self, text: str) -> str | None:
        if self._pattern is None:
            return None
        with within(MAX_SECONDS):
            return found(self._pattern, text, self.group_select) or None
