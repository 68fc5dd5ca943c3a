"""Metrics of ranked choices."""

from __future__ import annotations

from collections.abc import Sequence

from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import ChoiceOutcome


def best(scores: Sequence[float]) -> int:
    """The index of the highest score, the first of equals."""
    return max(range(len(scores)), key=scores.__getitem__)


@register_metric("acc", output_type="multiple_choice")
def acc(outcome: ChoiceOutcome) -> float:
    """Whether the most likely choice is right."""
    return float(best(outcome.loglikelihoods) in outcome.gold)


@register_metric("acc_norm", output_type="multiple_choice")
def acc_norm(outcome: ChoiceOutcome) -> float:
    """Whether the choice that is most likely per character is right."""
    lengths = [max(len(choice), 1) for choice in outcome.choices]
    return float(best([ll / n for ll, n in zip(outcome.loglikelihoods, lengths, strict=True)]) in outcome.gold)
