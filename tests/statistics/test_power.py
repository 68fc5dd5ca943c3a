"""The smallest detectable difference."""

from __future__ import annotations

import numpy as np
import pytest

from multiform.statistics.paired import mcnemar
from multiform.statistics.power import detectable_difference, mcnemar_power, needed_documents


def smallest(n, **options):
    difference = detectable_difference(n, **options).difference
    assert difference is not None
    return difference


@pytest.mark.parametrize("n", [10, 20, 50, 144, 1000])
@pytest.mark.parametrize("flip_rate", [0.1, 0.3])
def test_the_difference_is_detected_as_often_as_promised(n, flip_rate):
    rng, runs = np.random.default_rng(0), 4000
    detectable = detectable_difference(n, flip_rate=flip_rate)
    difference, flips = smallest(n, flip_rate=flip_rate), detectable.flip_rate
    counts = rng.multinomial(n, [(flips + difference) / 2, (flips - difference) / 2, 1 - flips], size=runs)
    found = (mcnemar(counts[:, 0], counts[:, 1]) <= 0.05).mean()
    assert found == pytest.approx(mcnemar_power(n, difference, flip_rate=flip_rate), abs=0.03)
    assert 0.8 - 0.03 <= found <= 0.95


def test_a_difference_is_never_more_than_the_documents_that_flip():
    for n in (10, 20, 50):
        assert smallest(n, flip_rate=0.05) <= detectable_difference(n, flip_rate=0.05).flip_rate


def test_so_few_documents_that_nothing_can_be_detected():
    assert detectable_difference(5).difference is None
    assert detectable_difference(10, comparisons=100).difference is None


def test_more_comparisons_and_fewer_documents_detect_less():
    assert smallest(100, comparisons=10) > smallest(100) > smallest(1000)


@pytest.mark.parametrize("difference", [0.02, 0.05, 0.1])
def test_the_needed_documents_detect_the_difference(difference):
    n = needed_documents(difference)
    assert mcnemar_power(n, difference) >= 0.8
    assert mcnemar_power(n - 1, difference) < 0.8
