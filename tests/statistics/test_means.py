"""Means with clustered standard errors, against statsmodels, the dense formula and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from multiform.errors import DataError
from multiform.statistics.estimates import mean_estimate
from multiform.statistics.means import dataset_estimates, document_scores, form_means, pool_subjects


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.mark.parametrize("binary", [True, False])
def test_independent_documents_have_the_estimate_of_every_other_result(rng, binary):
    values = rng.random((40, 3))
    values = (values > 0.4).astype(float) if binary else values
    for column, estimate in zip(values.T, form_means(document_scores(values)).estimates(), strict=True):
        reference = mean_estimate(column.tolist())
        assert (estimate.value, estimate.stderr) == pytest.approx((reference.value, reference.stderr))
        assert estimate.interval == pytest.approx(reference.interval)


def test_the_interval_of_none_and_of_all_ends_exactly_there():
    none, every = form_means(document_scores([[0, 1]] * 40)).estimates()
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.interval[1] == pytest.approx(1 - every.interval[0])


def test_the_clustered_standard_error_is_that_of_statsmodels_where_clusters_are_equally_large(rng):
    clusters = np.repeat(np.arange(20), 5)
    values = rng.normal(size=100) + rng.normal(size=20)[clusters]
    fit = sm.OLS(values, np.ones(100)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    means = form_means(document_scores(values, clusters.tolist()))
    assert means.stderrs[0] == pytest.approx(fit.bse[0])
    assert means.freedom == pytest.approx(19)


def test_clusters_of_any_size_have_the_dense_formula_of_bell_and_mccaffrey(rng):
    clusters = np.repeat(np.arange(8), [1, 2, 3, 5, 8, 13, 2, 6])
    n = len(clusters)
    values = rng.normal(size=n)
    residual_maker = np.eye(n) - np.full((n, n), 1 / n)
    columns = []
    for cluster in range(8):
        inside = clusters == cluster
        power, vectors = np.linalg.eigh(residual_maker[np.ix_(inside, inside)])
        root = vectors @ np.diag(power**-0.5) @ vectors.T
        columns.append(residual_maker[:, inside] @ root @ np.full(inside.sum(), 1 / n))
    gram = np.array(columns) @ np.array(columns).T
    means = form_means(document_scores(values, clusters.tolist()))
    assert means.covariance[0, 0] == pytest.approx(np.sum((np.array(columns) @ values) ** 2))
    assert means.freedom == pytest.approx(np.trace(gram) ** 2 / np.sum(gram**2))


def test_a_group_weighs_its_subjects_as_it_says(rng):
    parts = [document_scores(rng.random((size, 2))) for size in (10, 40)]
    alone = [form_means(part) for part in parts]
    for weights in ([1, 1], [10, 40], [3, 1]):
        together = form_means(pool_subjects(parts, weights))
        shares = np.array(weights) / np.sum(weights)
        assert together.values == pytest.approx(shares[0] * alone[0].values + shares[1] * alone[1].values)
        expected = shares[0] ** 2 * alone[0].covariance + shares[1] ** 2 * alone[1].covariance
        assert together.covariance == pytest.approx(expected)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rates", "scores", "clustered scores", "clustered rates", "group"])
def test_95_percent_intervals_cover_95_percent(kind):
    rng, covered, runs = np.random.default_rng(7), 0, 1500
    for _ in range(runs):
        if kind == "rates":
            mean = rng.uniform(0.2, 0.8)
            scores = document_scores(rng.random(150) < mean)
        elif kind == "scores":
            mean = 0.4
            scores = document_scores(rng.beta(0.4, 0.6, size=60))
        elif kind == "group":
            rates = rng.uniform(0.2, 0.8, size=3)
            mean = rates.mean()
            scores = pool_subjects([document_scores(rng.random(50) < rate) for rate in rates], [1, 1, 1])
        else:
            clusters = np.repeat(np.arange(50), rng.integers(1, 8, size=50))
            if kind == "clustered scores":
                mean = 0.0
                values = rng.normal(size=len(clusters)) + rng.normal(size=50)[clusters]
            else:
                mean = 0.6
                values = (rng.random(len(clusters)) < rng.beta(1.8, 1.2, size=50)[clusters]).astype(float)
            scores = document_scores(values, clusters.tolist())
        (estimate,) = form_means(scores).estimates()
        covered += estimate.covers(mean)
    assert 0.935 <= covered / runs <= 0.965


def test_ignoring_clusters_would_not_cover():
    rng, covered, runs = np.random.default_rng(7), 0, 500
    for _ in range(runs):
        values = rng.normal(size=200) + np.repeat(rng.normal(size=40), 5)
        (estimate,) = form_means(document_scores(values)).estimates()
        covered += estimate.covers(0)
    assert covered / runs < 0.8


def test_one_document_has_no_interval():
    with pytest.raises(DataError, match="fewer than two documents"):
        document_scores([[1, 0]])
    with pytest.raises(DataError, match="one cluster"):
        document_scores([[1, 0], [0, 1]], clusters=["p", "p"])
    with pytest.raises(DataError, match="not a number"):
        document_scores([[1.0, float("nan")], [0.0, 1.0]])


def clustered_rights(rng, clusters, rate):
    """Clusters of ten documents each, which are right or wrong together."""
    return document_scores(np.repeat(rng.random(clusters) < rate, 10), np.repeat(np.arange(clusters), 10).tolist())


def test_clusters_count_as_single_documents_where_all_documents_are_alike():
    (alike,) = form_means(document_scores(np.ones(200), np.repeat(np.arange(20), 10).tolist())).estimates()
    assert alike.interval == pytest.approx(mean_estimate([1.0] * 20).interval, abs=0.03)  # but for exact bounds
    rng, runs = np.random.default_rng(3), 1000
    covered = [form_means(clustered_rights(rng, 20, 0.95)).estimates()[0].covers(0.95) for _ in range(runs)]
    assert np.mean(covered) >= 0.935


@pytest.mark.long
@pytest.mark.parametrize(
    ("clusters", "size", "rate", "concentration"),
    [(20, 10, 0.95, 0.5), (20, 20, 0.95, 0.3), (40, 10, 0.97, 1), (100, 10, 0.99, 1), (40, 10, 0.03, 1)],
)
def test_dependent_clusters_that_are_nearly_all_right_or_wrong_are_covered(clusters, size, rate, concentration):
    rng, covered, runs = np.random.default_rng(8), 0, 500
    for _ in range(runs):
        rates = rng.beta(rate * concentration, (1 - rate) * concentration, size=(clusters, 1))
        values = (rng.random((clusters, size)) < rates).astype(float)
        scores = document_scores(values.ravel(), np.repeat(np.arange(clusters), size).tolist())
        covered += form_means(scores).estimates()[0].covers(rate)
    assert 0.945 <= covered / runs <= 0.99  # without the wholly wrong cluster that counts once more: 0.86 to 0.89


def test_one_more_cluster_counts_that_is_wrong_as_a_whole():
    values = np.ones((20, 10))
    values[0] = 0
    clusters = np.repeat(np.arange(20), 10).tolist()
    (whole,) = form_means(document_scores(values.ravel(), clusters)).estimates()
    values[0, 2:] = 1
    (part,) = form_means(document_scores(values.ravel(), clusters)).estimates()
    assert part.value > whole.value
    assert part.interval[0] < part.value - 0.05  # two wrong documents in one cluster of twenty do not bound the others


@pytest.mark.long
@pytest.mark.parametrize(
    ("sizes", "rates"), [((10, 300), (0.6, 0.9)), ((5, 300), (0.6, 0.9)), ((5, 5, 300), (0.6, 0.6, 0.9))]
)
def test_a_small_subject_of_large_weight_widens_the_interval_of_its_group(sizes, rates):
    rng, covered, runs = np.random.default_rng(9), 0, 600
    for _ in range(runs):
        parts = [document_scores(rng.random(size) < rate) for size, rate in zip(sizes, rates, strict=True)]
        covered += form_means(pool_subjects(parts, [1] * len(parts))).estimates()[0].covers(np.mean(rates))
    assert covered / runs >= 0.94  # with a normal quantile: 0.90 for 10 documents beside 300


@pytest.mark.long
@pytest.mark.parametrize(("sizes", "rates"), [((20, 400), (0.9, 0.5)), ((10, 10, 200), (0.05, 0.1, 0.5))])
def test_a_small_subject_that_is_all_right_or_all_wrong_is_not_taken_for_certain(sizes, rates):
    rng, runs = np.random.default_rng(4), 1000
    covered = 0
    for _ in range(runs):
        parts = [document_scores(rng.random(size) < rate) for size, rate in zip(sizes, rates, strict=True)]
        (estimate,) = form_means(pool_subjects(parts, [1] * len(parts))).estimates()
        covered += estimate.covers(np.mean(rates))
    assert covered / runs >= 0.935


@pytest.mark.long
def test_many_small_subjects_cover_95_percent():
    rng, covered, runs = np.random.default_rng(5), 0, 400
    for _ in range(runs):
        parts = [document_scores(rng.random(10) < 0.9) for _ in range(57)]
        (estimate,) = form_means(pool_subjects(parts, [10] * 57)).estimates()
        covered += estimate.covers(0.9)
    assert 0.935 <= covered / runs <= 0.965


@pytest.mark.long
@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize(("subjects", "sizes"), [(3, (12,)), (6, (6,)), (10, (3, 10, 30)), (57, (5,))])
@pytest.mark.parametrize("rate", [0.95, 0.995])
def test_a_group_of_small_subjects_that_are_nearly_all_right_is_covered(subjects, sizes, rate, by_size):
    rng, covered, runs = np.random.default_rng(6), 0, 200
    counts = [sizes[index % len(sizes)] for index in range(subjects)]
    for _ in range(runs):
        parts = [document_scores(rng.random(count) < rate) for count in counts]
        (estimate,) = form_means(pool_subjects(parts, counts if by_size else [1] * subjects)).estimates()
        covered += estimate.covers(rate)
        low, high = estimate.interval
        assert 0 <= low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= high <= 1
    assert covered / runs >= 0.93


def covered_share(rng, population, n, total, *, clusters=1, runs=400):
    """How often the interval of the whole dataset has its mean, where a random part of it was evaluated."""
    covered, narrower = 0, 0.0
    for _ in range(runs):
        values = population(total // clusters).reshape(-1, clusters)
        rows = rng.permutation(len(values))[: n // clusters]
        scores = document_scores(values[rows].ravel(), np.repeat(rows, clusters).tolist())
        (estimate,), (of_all,) = dataset_estimates(scores, total), form_means(scores).estimates()
        covered += estimate.interval[0] - 1e-9 <= values.mean() <= estimate.interval[1] + 1e-9
        narrower += np.ptp(estimate.interval) / np.ptp(of_all.interval) / runs
    return covered / runs, narrower


@pytest.mark.parametrize(("n", "total"), [(20, 40), (50, 60), (50, 100), (100, 110), (100, 1000), (144, 200)])
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.7, 0.98])
def test_the_score_of_the_whole_dataset_is_covered(n, total, rate):
    rng = np.random.default_rng(n)
    share, narrower = covered_share(rng, lambda count: (rng.random(count) < rate).astype(float), n, total)
    assert share >= 0.93
    assert narrower < 1.05
    if rate in (0.5, 0.7):
        assert narrower < 1.25 * np.sqrt(1 - n / total) + 0.1


@pytest.mark.parametrize(("n", "total"), [(200, 400), (200, 1000), (300, 400)])
def test_the_score_of_the_whole_dataset_is_covered_with_whole_clusters(n, total):
    rng = np.random.default_rng(n + total)

    def clusters(count):
        return rng.random((count, 10)) < rng.beta(1.4, 0.6, size=(count, 1))

    assert covered_share(rng, lambda count: clusters(count).astype(float), n, total, clusters=10)[0] >= 0.93


@pytest.mark.parametrize(("n", "total"), [(20, 40), (50, 60), (100, 110), (40, 400)])
def test_the_score_of_the_whole_dataset_is_covered_by_shares_with_many_zeros(n, total):
    rng = np.random.default_rng(n)
    share, _ = covered_share(rng, lambda count: np.where(rng.random(count) < 0.6, 0, rng.random(count)), n, total)
    assert share >= 0.92


@pytest.mark.long
@pytest.mark.parametrize(("n", "total"), [(50, 60), (50, 100), (100, 110), (100, 1000), (100, 5000)])
def test_the_score_of_the_whole_dataset_is_covered_where_values_are_skewed(n, total):
    rng = np.random.default_rng(total)
    assert covered_share(rng, lambda count: rng.exponential(1, count), n, total, runs=300)[0] >= 0.92
    assert covered_share(rng, lambda count: rng.lognormal(0, 1, count), n, total, runs=300)[0] >= 0.9


@pytest.mark.parametrize(("n", "total"), [(2, 4), (3, 6), (4, 20)])
def test_the_score_of_the_whole_dataset_is_covered_by_very_few_values(n, total):
    rng = np.random.default_rng(n)
    assert covered_share(rng, lambda count: rng.normal(size=count), n, total)[0] >= 0.92


def test_equal_values_among_a_sample_do_not_make_the_interval_endless():
    (estimate,) = dataset_estimates(document_scores([0.1] * 19 + [0.6]), 40)
    assert np.ptp(estimate.interval) < 0.15


def test_a_dataset_that_was_evaluated_as_a_whole_has_one_score():
    scores = document_scores([1, 0, 1, 1])
    assert [estimate.interval for estimate in dataset_estimates(scores, 4)] == [(0.75, 0.75)]
    low, high = dataset_estimates(scores, 5)[0].interval
    assert (low, high) == pytest.approx((0.6, 0.8))  # the fifth document is wrong or right


def test_a_small_part_of_a_dataset_has_nearly_the_interval_of_all_questions():
    scores = document_scores([1, 0, 1, 1] * 20)
    (estimate,), (of_all,) = dataset_estimates(scores, 10**6), form_means(scores).estimates()
    assert estimate.interval == pytest.approx(of_all.interval, abs=1e-3)
