"""Runs that stop because of the width of an interval: it holds as often as they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from multiform.results.groups import TaskStops
from multiform.run.sequential import SequentialEvaluation
from multiform.statistics.estimates import STOPPED_LEVEL, Estimate
from multiform.statistics.means import DocumentScores, dataset_estimates, document_scores, form_means

RATE = 0.7


class SimulatedRounds(SequentialEvaluation):
    """One form whose scores are known, without a model."""

    def __init__(self, scores: np.ndarray[Any, Any]) -> None:
        self.names = ["form"]
        self.units = [[("task", unit * len(row) + at) for at in range(len(row))] for unit, row in enumerate(scores)]
        self._values = scores.ravel()
        self._scores = {"form": {}}
        self._head = {doc: ("task", number) for number, unit in enumerate(self.units) for doc in unit}

    def _evaluate(self, units: Sequence[Sequence[tuple[str, int]]], names: Sequence[str]) -> Any:
        self._scores["form"] |= {doc: float(self._values[doc[1]]) for unit in units for doc in unit}

    def _stops(self, *args: Any, **options: Any) -> TaskStops:
        return None  # type: ignore[return-value]

    @property
    def _no_more(self) -> str:
        return "no more documents"

    @property
    def table(self) -> DocumentScores:
        scores = self._scores["form"]
        return document_scores(list(scores.values()), [self._head[doc] for doc in scores])

    def estimate(self) -> Estimate:
        """The score with the interval that is printed."""
        (estimate,) = form_means(self.table).estimates(STOPPED_LEVEL)
        return estimate

    def dataset_estimate(self) -> Estimate:
        """The score with the interval of what all documents would give."""
        (estimate,) = dataset_estimates(self.table, len(self._values), level=STOPPED_LEVEL)
        return estimate


@pytest.mark.long
@pytest.mark.parametrize(
    ("clusters", "size", "half_width"),
    [(40, 5, 0.12), (40, 10, 0.12), (20, 20, 0.12), (400, 1, 0.12), (200, 10, 0.05)],
)
def test_the_interval_of_a_stopped_run_covers_with_clusters(clusters: int, size: int, half_width: float) -> None:
    rng, runs, covered = np.random.default_rng(clusters + size), 300, 0
    for _ in range(runs):
        rounds = SimulatedRounds(simulated(rng, clusters, size))
        rounds.until(half_width)
        covered += rounds.estimate().covers(RATE)
    assert covered / runs >= 0.93


def simulated(rng: np.random.Generator, clusters: int, size: int) -> np.ndarray[Any, Any]:
    rates = rng.beta(RATE * 2, (1 - RATE) * 2, size=(clusters, 1)) if size > 1 else RATE
    return rng.random((clusters, size)) < rates


@pytest.mark.long
@pytest.mark.parametrize(
    ("clusters", "size", "half_width"), [(400, 1, 0.05), (1000, 1, 0.03), (60, 10, 0.05), (40, 5, 0.08)]
)
def test_a_run_stops_sooner_if_the_dataset_itself_is_the_question(clusters: int, size: int, half_width: float) -> None:
    rng, runs, covered, documents = np.random.default_rng(clusters + size), 300, 0, np.zeros(2)
    for _ in range(runs):
        scores = simulated(rng, clusters, size)
        of_all, of_dataset = SimulatedRounds(scores), SimulatedRounds(scores)
        of_all.until(half_width)
        of_dataset.until(half_width, of_dataset=True)
        documents += of_all.table.n, of_dataset.table.n
        estimate = of_dataset.dataset_estimate()
        covered += estimate.covers(scores.mean())
        assert np.ptp(estimate.interval) <= 2 * half_width + 1e-9
    assert covered / runs >= 0.93
    assert documents[1] < 0.85 * documents[0]
