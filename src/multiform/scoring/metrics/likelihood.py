"""Metrics of the likelihood of a text."""

from __future__ import annotations

from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import LikelihoodOutcome


@register_metric(
    "bits_per_byte",
    output_type=["loglikelihood", "loglikelihood_rolling"],
    aggregation="bits_per_byte",
    higher_is_better=False,
)
def bits_per_byte(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """Log-likelihood and bytes of the text that was scored, its delimiter included."""
    return outcome.loglikelihood, len(outcome.text.encode("utf-8"))
