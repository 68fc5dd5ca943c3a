"""The cheapest design for a wanted interval."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from multiform.errors import DataError
from multiform.statistics.design import Components, RunDesign, cheapest_design
from multiform.statistics.means import form_means
from multiform.statistics.scores import document_scores
from multiform.statistics.wordings import wording_population


def advise(components, half_width, **options):
    design = cheapest_design(components, half_width, **options)
    assert design is not None
    return design


PILOT = Components(document=0.16, wording=0.0009, rest=0.06)


def test_no_cheaper_design_is_narrow_enough():
    design = advise(PILOT, 0.03, documents=1000)
    assert PILOT.half_width(design) <= 0.03
    others = (
        RunDesign(documents=d, wordings=w) for d, w in product(range(2, 1001, 7), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32))
    )
    assert all(PILOT.half_width(other) > 0.03 for other in others if other.evaluations < design.evaluations)


def test_wordings_are_needed_where_documents_do_not_help():
    assert advise(PILOT, 0.03, documents=10**9).wordings > 1
    assert advise(Components(document=0.2, wording=0.0, rest=0.05), 0.03, documents=10**9).wordings == 1


def test_repeats_pay_only_without_further_documents():
    noisy = Components(document=0.05, wording=0.0, rest=0.2)
    assert advise(noisy, 0.05, documents=1000, repeats=True).repeats == 1
    assert advise(noisy, 0.05, documents=120, repeats=True).evaluations > 120


def test_what_cannot_be_reached_is_not_promised():
    assert cheapest_design(PILOT, 0.001, documents=1000) is None
    with pytest.raises(DataError, match="half width above 0"):
        cheapest_design(PILOT, 0, documents=10)


@pytest.mark.long
def test_a_run_of_the_advised_size_has_about_the_wanted_interval():
    rng, widths = np.random.default_rng(0), []

    def scores(documents, wordings):
        rates = 0.6 + 0.04 * rng.normal(size=wordings) + 0.15 * rng.normal(size=(documents, 1))
        return form_means(document_scores(rng.random((documents, wordings)) < rates))

    for _ in range(40):
        pilot = wording_population(scores(200, 12)).components
        design = advise(pilot, 0.05, documents=5000)
        population = wording_population(scores(design.documents, max(3, design.wordings)))
        widths.append(np.ptp(population.mean.interval) / 2)
    assert np.median(widths) == pytest.approx(0.05, rel=0.35)
