"""Metrics of the likelihood of a text."""

from __future__ import annotations

from multiform.formats import OutputType
from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import LikelihoodOutcome, Outcome

_ANY: tuple[OutputType, ...] = ("loglikelihood", "loglikelihood_rolling")


@register_metric("perplexity", output_type="loglikelihood", aggregation="perplexity", higher_is_better=False)
def perplexity(outcome: LikelihoodOutcome) -> float:
    """The log-likelihood, for the perplexity per document."""
    return outcome.loglikelihood


@register_metric("word_perplexity", output_type=_ANY, aggregation="weighted_perplexity", higher_is_better=False)
def word_perplexity(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """Log-likelihood and number of words, for the perplexity per word."""
    return outcome.loglikelihood, outcome.words


@register_metric("byte_perplexity", output_type=_ANY, aggregation="weighted_perplexity", higher_is_better=False)
def byte_perplexity(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """Log-likelihood and number of bytes, for the perplexity per byte."""
    return outcome.loglikelihood, outcome.bytes


@register_metric("bits_per_byte", output_type=_ANY, aggregation="bits_per_byte", higher_is_better=False)
def bits_per_byte(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """Log-likelihood and number of bytes of the scored text, its delimiter included."""
    return outcome.loglikelihood, outcome.bytes


@register_metric(
    "bypass",
    output_type=["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"],
    aggregation="bypass",
)
def bypass(outcome: Outcome) -> int:
    """No score, for runs that only collect responses."""
    return 999
