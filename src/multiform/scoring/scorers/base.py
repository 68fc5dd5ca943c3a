"""Scorers: filter, read and score the answers of a form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from multiform.registry import Registry
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import Metric
from multiform.scoring.outcome import Outcome, TextOutcome

scorers: Registry[type[Scorer]] = Registry("scorer")
register_scorer = scorers.register


class Scorer:
    """Scores one document with a list of metrics, after one pipeline of filters."""

    #: Metrics of this scorer where neither the task nor the format names any.
    default_metrics: ClassVar[Sequence[str]] = ()

    def __init__(self, *, pipeline: Pipeline, metrics: Sequence[Metric]) -> None:
        self.pipeline = pipeline
        self.metrics = tuple(metrics)

    @property
    def name(self) -> str:
        """The part of a result's key after the comma."""
        return self.pipeline.name

    def score(self, outcome: Outcome) -> dict[str, Any]:
        """The value of each metric for one document."""
        return {metric.name: metric(outcome) for metric in self.metrics}


class ReadingScorer(Scorer):
    """A scorer that reads the answer out of free text; an answer that is not there is None."""

    default_metrics: ClassVar[Sequence[str]] = ("exact_match", "invalid", "truncated")

    def read(self, outcome: TextOutcome) -> str | None:
        """The answer that the text gives, or None."""
        raise NotImplementedError

    def canonical(self, text: str) -> str:
        """A form of an answer in which equal answers are equal strings."""
        return text

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """The outcome with the text replaced by the answer that was read."""
        answer = self.read(outcome) if outcome.prediction is not None else None
        return replace(
            outcome,
            prediction=None if answer is None else self.canonical(answer),
            references=tuple(self.canonical(reference) for reference in outcome.references),
        )

    def score(self, outcome: Outcome) -> dict[str, Any]:
        assert isinstance(outcome, TextOutcome)
        return super().score(self.reading(outcome))
