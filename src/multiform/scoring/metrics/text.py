"""Metrics of what a model writes."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import TextOutcome

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


@register_metric("exact_match", output_type="generate_until")
def exact_match(
    outcome: TextOutcome,
    *,
    regexes_to_ignore: Sequence[str] = (),
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> float:
    """Whether the text equals one of the references."""

    def clean(text: str) -> str:
        for pattern in regexes_to_ignore:
            text = re.sub(pattern, "", text)
        text = text.lower() if ignore_case else text
        text = text.translate(_PUNCTUATION) if ignore_punctuation else text
        return text.translate(_DIGITS) if ignore_numbers else text

    if outcome.prediction is None:
        return 0.0
    return float(clean(outcome.prediction) in {clean(reference) for reference in outcome.references})


@register_metric("invalid", output_type="generate_until", higher_is_better=False)
def invalid(outcome: TextOutcome) -> float:
    """Whether no answer could be read out of the text."""
    return float(outcome.prediction is None)


@register_metric("truncated", output_type="generate_until", higher_is_better=False)
def truncated(outcome: TextOutcome) -> float:
    """Whether the text ran into the limit of tokens."""
    return float(outcome.truncated)
