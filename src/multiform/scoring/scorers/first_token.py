"""The scorer `first_token`: compares the first word of a completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, register_scorer

#: The characters around a word: all but letters, digits and the sign of a number.
_AROUND = re.compile(r"^(?:(?![+-]\.?\d)[\W_])+|[\W_]+$")


@register_scorer("first_token")
@dataclass(kw_only=True, eq=False)
class FirstToken(ReadingScorer):
    """The first word of the completion, without case and punctuation.

    Where a reference has several words, as many words of the completion are compared.
    """

    def read(self, outcome: TextOutcome) -> str | None:
        return next(iter(tokens(outcome.prediction)), None)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """Compare the beginning of the text with each reference, token by token."""
        reference_tokens = [tokens(reference) for reference in outcome.references]
        predicted = tokens(outcome.prediction) if outcome.prediction is not None else []
        right = next((ref for ref in reference_tokens if ref and predicted[: len(ref)] == ref), predicted[:1])
        return replace(outcome, prediction=_joined(right) or None, references=tuple(map(_joined, reference_tokens)))


def tokens(text: str) -> list[str]:
    """The words of a text without case and the punctuation around them.

    >>> tokens("(b)"), tokens(" B. y"), tokens("**Yes**, -3.5 %")
    (['b'], ['b', 'y'], ['yes', '-3.5'])
    """
    bare = (_AROUND.sub("", word) for word in text.casefold().split())
    return [word for word in bare if word]


def _joined(words: Sequence[str]) -> str:
    return " ".join(words)
