"""A model, a format, a metric and an exporter, each of which registers itself when this module is imported.

`multiform ls` imports the module, so import slow packages such as torch inside the functions that use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from multiform import (
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    MCQAFormat,
    Model,
    Results,
    RollingRequest,
    register_metric,
    register_model,
)
from multiform.results.exchange.exporters import register_exporter
from multiform.scoring.outcome import ChoiceOutcome


@register_model("longest")
class Longest(Model):
    """Prefers long continuations, and completes every prompt with the same text."""

    name = identity = "longest"

    def __init__(self, *, text: str = " A", **others: object) -> None:
        """`model_args` come in as keywords."""
        self._text = text

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[tuple[int, LLOutput]]:
        for position, request in enumerate(requests):
            yield position, LLOutput(len(request.continuation) - 1000.0, is_greedy=False)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[tuple[int, LLOutput]]:
        for position, request in enumerate(requests):
            yield position, LLOutput(-float(len(request.text)))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, Completion]]:
        for position, _ in enumerate(requests):
            yield position, Completion(self._text)


@dataclass(frozen=True, kw_only=True)
class Brackets(MCQAFormat):
    """Choices as (A), (B), (C)."""

    format_name = "brackets"
    choice_format: str = "({label}) {choice}"


@register_metric("first_choice", output_type="multiple_choice")
def first_choice(outcome: ChoiceOutcome) -> float:
    """How often the first choice is picked."""
    return float(max(range(len(outcome.choices)), key=outcome.loglikelihoods.__getitem__) == 0)


@register_exporter("headlines")
def write_headlines(results: Results, folder: Path) -> list[Path]:
    """The first score of each form, a line each."""
    lines = [f"{form.name}\t{form.estimates[form.primary].value:.4f}\n" for form in results.forms if form.estimates]
    file = folder / "headlines.tsv"
    file.write_text("".join(lines), encoding="utf-8")
    return [file]
