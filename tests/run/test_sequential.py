"""Runs that stop because of the width of an interval: it holds as often as they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from multiform.results.stops import TaskStops
from multiform.run.sequential import SequentialEvaluation
from multiform.statistics.estimates import STOPPED_LEVEL, Estimate
from multiform.statistics.means import form_means
from multiform.statistics.scores import document_scores

RATE = 0.7


class SimulatedRounds(SequentialEvaluation):
    """One form whose scores are known, without a model."""

    def __init__(self, scores: np.ndarray[Any, Any]) -> None:
        self.names = ["form"]
        self.units = [[("task", unit * len(row) + at) for at in range(len(row))] for unit, row in enumerate(scores)]
        self._width_of_unit, self._values = scores.shape[1], scores.ravel()
        self._scores = {"form": {}}

    def _cluster(self, doc: tuple[str, int]) -> tuple[str, int]:
        return "task", doc[1] // self._width_of_unit

    def _evaluate(
        self, units: Sequence[Sequence[tuple[str, int]]], names: Sequence[str], *, bounded: bool = True
    ) -> Any:
        self._scores["form"] |= {doc: float(self._values[doc[1]]) for unit in units for doc in unit}

    def _stops(self, *args: Any, **options: Any) -> TaskStops:
        return None  # type: ignore[return-value]

    @property
    def _no_more(self) -> str:
        return "no more documents"

    def estimate(self) -> Estimate:
        """The score with the interval that is printed."""
        scores = self._scores["form"]
        clusters = [self._cluster(doc) for doc in scores]
        (estimate,) = form_means(document_scores(list(scores.values()), clusters)).estimates(STOPPED_LEVEL)
        return estimate


@pytest.mark.long
@pytest.mark.parametrize(("clusters", "size"), [(40, 5), (40, 10), (20, 20), (400, 1)])
def test_the_interval_of_a_stopped_run_covers_with_clusters(clusters: int, size: int) -> None:
    rng, runs, covered = np.random.default_rng(clusters + size), 300, 0
    for _ in range(runs):
        rates = rng.beta(RATE * 2, (1 - RATE) * 2, size=(clusters, 1)) if size > 1 else RATE
        rounds = SimulatedRounds(rng.random((clusters, size)) < rates)
        rounds.until(0.12)
        covered += rounds.estimate().covers(RATE)
    assert covered / runs >= 0.93
