"""The smallest detectable difference."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.power import normal_power

from multiform.statistics.paired import mcnemar
from multiform.statistics.power import detectable_difference, needed_documents


@pytest.mark.parametrize("n", [100, 1000, 10_000])
@pytest.mark.parametrize("flip_rate", [0.1, 0.3])
def test_the_difference_has_the_power_that_statsmodels_says(n, flip_rate):
    difference = detectable_difference(n, flip_rate=flip_rate).difference
    effect = difference / np.sqrt(flip_rate - difference**2)
    assert normal_power(effect, n, 0.05) == pytest.approx(0.8, abs=1e-4)


def test_the_difference_is_detected_as_often_as_promised():
    rng, n, runs = np.random.default_rng(0), 1000, 4000
    difference = detectable_difference(n, flip_rate=0.2).difference
    counts = rng.multinomial(n, [(0.2 + difference) / 2, (0.2 - difference) / 2, 0.8], size=runs)
    assert (mcnemar(counts[:, 0], counts[:, 1]) < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_more_comparisons_and_fewer_documents_detect_less():
    assert detectable_difference(100).difference > detectable_difference(1000).difference
    assert detectable_difference(100, comparisons=10).difference > detectable_difference(100).difference


def test_few_documents_detect_only_what_flips_all_one_way():
    detectable = detectable_difference(20, flip_rate=0.05)
    assert detectable.difference > 0.05
    assert needed_documents(detectable.difference, flip_rate=0.05) == 20


def test_the_needed_documents_detect_the_difference():
    for difference in (0.01, 0.05, 0.1):
        n = needed_documents(difference)
        assert detectable_difference(n).difference <= difference < detectable_difference(n - 2).difference
