"""Aggregates and their uncertainty, against scipy and the bootstrap."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from multiform.statistics.estimates import (
    Estimate,
    exact_bounds,
    mean_estimate,
    normal_estimate,
    ratio_estimate,
    recorded_estimate,
    share_estimate,
    skewed_interval,
    wilson_interval,
)

COUNTS = [(0, 10), (4, 10), (10, 10), (500, 1000), (61_234, 100_000)]


@pytest.mark.parametrize(("right", "n"), COUNTS)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_of_a_rate_is_wilsons(right, n, level):
    reference = scipy.stats.binomtest(right, n).proportion_ci(confidence_level=level, method="wilson")
    assert wilson_interval(right / n, n, level) == pytest.approx((reference.low, reference.high), abs=1e-12)


@pytest.mark.parametrize("right", [1, 2, 3])
def test_few_rights_or_wrongs_have_the_bound_of_a_poisson_distribution(right):
    n = 1000
    bound = scipy.stats.chi2.ppf(0.05, 2 * right) / 2 / n
    wilson = scipy.stats.binomtest(right, n).proportion_ci(method="wilson")
    assert wilson_interval(right / n, n) == pytest.approx((bound, wilson.high))
    assert wilson_interval(1 - right / n, n) == pytest.approx((1 - wilson.high, 1 - bound))


@pytest.mark.parametrize("n", [20, 50, 144, 1000])
def test_a_rate_is_covered_also_near_0_and_1(n):
    counts = np.arange(n + 1)
    low, high = np.array([wilson_interval(right / n, n) for right in counts]).T
    rates = np.concatenate([np.geomspace(0.0005, 0.5, 400), 1 - np.geomspace(0.0005, 0.5, 400)])
    covered = [scipy.stats.binom.pmf(counts, n, rate)[(low <= rate) & (rate <= high)].sum() for rate in rates]
    assert min(covered) > 0.92  # Wilson's own interval: 0.84
    assert 0.945 < np.mean(covered) < 0.985


@pytest.mark.parametrize(("right", "n"), [(0, 10), (3, 10), (10, 10), (999, 1000)])
def test_exact_bounds_are_clopper_and_pearsons(right, n):
    reference = scipy.stats.binomtest(right, n).proportion_ci(method="exact")
    assert exact_bounds(right / n, n, 0.025) == pytest.approx((reference.low, reference.high))


SKEWED: dict[str, Any] = {
    "bits per byte": (lambda rng, n: rng.lognormal(0, 0.5, n), np.exp(0.125), False),
    "heavy tail": (lambda rng, n: rng.exponential(1, n), 1.0, False),
    "F1, mostly 0": (lambda rng, n: (rng.random(n) < 0.2) * rng.beta(2, 2, n), 0.1, True),
    "F1, nearly always 0": (lambda rng, n: (rng.random(n) < 0.08) * rng.beta(4, 2, n), 0.08 * 4 / 6, True),
    "F1, mostly 1": (lambda rng, n: 1 - (rng.random(n) < 0.1) * rng.beta(2, 2, n), 0.95, True),
    "pass@k": (lambda rng, n: rng.beta(0.15, 1.2, n), 0.15 / 1.35, False),
}


@pytest.mark.parametrize("name", SKEWED)
@pytest.mark.parametrize("n", [20, 50, 200])
def test_skewed_means_are_covered(name, n):
    draw, mean, unit = SKEWED[name]
    rng, runs = np.random.default_rng(0), 400
    estimates = [mean_estimate(draw(rng, n).tolist()) for _ in range(runs)]
    assert np.mean([estimate.covers(mean) for estimate in estimates]) >= 0.93 - 0.025
    if unit:
        assert all(0 <= estimate.interval[0] <= estimate.interval[1] <= 1 for estimate in estimates)


@pytest.mark.parametrize("n", [20, 50, 200])
def test_skewed_ratios_are_covered(n):
    rng, runs, covered = np.random.default_rng(1), 400, 0
    for _ in range(runs):
        lengths = rng.lognormal(3, 0.6, n)
        pairs = list(zip((lengths * rng.lognormal(0, 0.5, n)).tolist(), lengths.tolist(), strict=True))
        covered += ratio_estimate(pairs).covers(np.exp(0.125))
    assert covered / runs >= 0.93 - 0.03


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_of_a_mean_without_skew_is_students(n, level):
    reference = scipy.stats.t.interval(level, n - 1, loc=0.3, scale=0.02)
    assert skewed_interval(0.3, 0.02, n, 0.0, level) == pytest.approx(reference)


def test_the_mean_of_rights_and_wrongs_has_wilsons_interval_and_the_sample_standard_error():
    values = [1.0] * 7 + [0.0] * 3
    estimate = mean_estimate(values)
    assert estimate.value == 0.7
    assert estimate.n == 10
    assert estimate.stderr == pytest.approx(scipy.stats.sem(values))
    assert (estimate.low, estimate.high) == wilson_interval(0.7, 10)


def test_the_mean_of_other_values_has_students_interval_where_they_are_not_skewed():
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    estimate = mean_estimate(values)
    reference = scipy.stats.t.interval(0.95, 4, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert estimate.value == pytest.approx(np.mean(values))
    assert estimate.stderr == pytest.approx(scipy.stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx(reference)


def test_bools_count_as_rights_and_wrongs():
    assert mean_estimate([True, False, True]) == mean_estimate([1.0, 0.0, 1.0])


def test_the_mean_of_one_document_has_no_known_uncertainty():
    assert mean_estimate([1.0]) == Estimate(value=1.0, n=1, stderr=None, low=None, high=None)


def test_when_all_are_right_the_interval_still_is_honest():
    estimate = mean_estimate([1.0] * 20)
    assert (estimate.value, estimate.stderr) == (1.0, 0.0)
    assert estimate.high == pytest.approx(1.0)
    assert estimate.low == pytest.approx(scipy.stats.binomtest(20, 20).proportion_ci(method="wilson").low)


def test_when_all_other_values_are_equal_the_interval_is_that_value():
    estimate = mean_estimate([0.5] * 20)
    assert (estimate.value, estimate.stderr, estimate.low, estimate.high) == (0.5, 0.0, 0.5, 0.5)


def test_the_mean_of_many_small_values_does_not_lose_any():
    assert mean_estimate([0.1] * 10).value == 0.1


def pairs_of(n, seed):
    """Log-likelihoods and byte counts of made-up documents; longer ones are less likely."""
    draw = np.random.default_rng(seed)
    weights = draw.integers(5, 200, size=n)
    sums = -weights * draw.gamma(4.0, 0.2, size=n)
    return [(float(x), float(w)) for x, w in zip(sums, weights, strict=True)]


def test_a_ratio_is_the_ratio_of_the_sums():
    estimate = ratio_estimate([(-2.0, 4.0), (-1.0, 1.0)])
    assert estimate.value == pytest.approx(-3.0 / 5.0)
    assert estimate.n == 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, -1 / math.log(2)])
def test_the_standard_error_of_a_ratio_agrees_with_the_bootstrap(seed, scale):
    pairs = np.array(pairs_of(400, seed))
    draws = np.random.default_rng(100 + seed).integers(0, len(pairs), size=(4000, len(pairs)))
    sums = pairs[draws].sum(axis=1)
    resampled = scale * sums[:, 0] / sums[:, 1]
    estimate = ratio_estimate([tuple(pair) for pair in pairs], scale=scale)
    assert estimate.stderr == pytest.approx(resampled.std(ddof=1), rel=0.08)
    low, high = np.percentile(resampled, [2.5, 97.5])
    width = high - low
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.1 * width)


def test_the_standard_error_of_a_ratio_with_equal_weights_is_that_of_the_mean():
    values = [0.1, 0.5, 0.25, 0.9, 0.3]
    ratio, mean = ratio_estimate([(x, 1.0) for x in values]), mean_estimate(values)
    assert ratio.value == pytest.approx(mean.value)
    assert ratio.stderr == pytest.approx(mean.stderr)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


@pytest.mark.parametrize(("n", "rate"), [(3, 0.7), (10, 0.95), (30, 0.3), (100, 0.05)])
def test_the_interval_of_followed_instructions_covers_their_rate_and_stays_between_0_and_1(n, rate):
    rng, runs, estimates = np.random.default_rng(2), 400, []
    for _ in range(runs):
        instructions = rng.integers(1, 4, n)
        followed = rng.binomial(instructions, rng.beta(2 * rate, 2 * (1 - rate), n))
        estimates.append(share_estimate(list(zip(followed.tolist(), instructions.tolist(), strict=True))))
    assert all(0 <= estimate.interval[0] <= estimate.interval[1] <= 1 for estimate in estimates)
    assert np.mean([estimate.covers(rate) for estimate in estimates]) >= 0.93


def test_a_ratio_of_one_document_has_no_known_uncertainty():
    assert ratio_estimate([(-3.0, 2.0)], scale=-1.0) == Estimate(value=1.5, n=1)


def test_a_ratio_of_equal_rates_is_certain():
    estimate = ratio_estimate([(-1.0, 2.0), (-2.0, 4.0), (-4.0, 8.0)])
    assert (estimate.value, estimate.stderr) == (-0.5, 0.0)


def test_a_ratio_over_nothing_is_not_a_number():
    estimate = ratio_estimate([(-1.0, 0.0), (-2.0, 0.0)])
    assert math.isnan(estimate.value)
    assert estimate.stderr is None


def test_a_known_standard_error_gets_a_normal_interval():
    estimate = normal_estimate(0.5, 0.1, 30)
    assert (estimate.low, estimate.high) == pytest.approx(scipy.stats.norm.interval(0.95, loc=0.5, scale=0.1))
    assert normal_estimate(0.5, None, 30) == Estimate(value=0.5, n=30)


def test_a_recorded_standard_error_that_is_not_a_number_gives_no_interval():
    assert np.isnan(recorded_estimate(0.5, math.nan, 100).interval).all()


rights = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=200)
values = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=2, max_size=50)
pairs = st.lists(
    st.tuples(st.floats(min_value=-1e4, max_value=0), st.integers(min_value=1, max_value=10**4)),
    min_size=2,
    max_size=50,
)


@given(rights)
def test_the_interval_of_a_rate_holds_the_rate_and_stays_within_bounds(items):
    estimate: Any = mean_estimate(items)
    assert 0.0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1.0
    assert estimate.low < estimate.high


@given(rights)
def test_the_interval_of_wrongs_mirrors_that_of_rights(items):
    right: Any = mean_estimate(items)
    wrong: Any = mean_estimate([1 - x for x in items])
    assert (right.low, right.high) == pytest.approx((1 - wrong.high, 1 - wrong.low), abs=1e-12)


@given(st.integers(min_value=1, max_value=500), st.integers(min_value=2, max_value=50))
def test_more_documents_at_the_same_rate_make_the_interval_narrower(n, times):
    few, many = wilson_interval(0.5, n), wilson_interval(0.5, n * times)
    assert few[0] < many[0] <= many[1] < few[1]


@given(values)
def test_the_interval_of_a_mean_holds_the_mean(items):
    estimate: Any = mean_estimate(items)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.value == pytest.approx(statistics.fmean(items), abs=1e-9)
    assert estimate.stderr >= 0


@given(values, st.randoms(use_true_random=False))
def test_the_order_of_the_documents_does_not_matter(items, random):
    shuffled = random.sample(items, len(items))
    assert mean_estimate(shuffled) == mean_estimate(items)


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_documents_of_a_ratio_does_not_matter(items, random):
    assert ratio_estimate(random.sample(items, len(items))) == ratio_estimate(items)


@given(pairs, st.floats(min_value=0.01, max_value=100))
def test_a_scaled_ratio_has_a_scaled_uncertainty(items, scale):
    plain, scaled = ratio_estimate(items), ratio_estimate(items, scale=-scale)
    assert scaled.value == pytest.approx(-scale * plain.value)
    assert scaled.stderr == pytest.approx(scale * plain.stderr)
    assert (scaled.low, scaled.high) == pytest.approx((-scale * plain.high, -scale * plain.low))


@given(pairs)
def test_a_ratio_lies_between_the_lowest_and_the_highest_rate(items):
    rates = [x / weight for x, weight in items]
    estimate: Any = ratio_estimate(items)
    slack = 1e-9 * (1 + max(map(abs, rates)))
    assert min(rates) - slack <= estimate.value <= max(rates) + slack
    assert estimate.low <= estimate.value <= estimate.high
