"""The split of variance, the cheapest design for a wanted interval, and the smallest detectable difference."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from multiform.errors import DataError
from multiform.statistics.design import (
    Components,
    RunDesign,
    VarianceSplit,
    cheapest_design,
    detectable_difference,
    form_variance,
    mcnemar_power,
    needed_documents,
    repeat_variance,
    variance_split,
)
from multiform.statistics.differences import mcnemar
from multiform.statistics.means import document_scores, form_means, pool_subjects
from multiform.statistics.wordings import wording_population


def test_two_factors_are_solved_from_the_mean_squares_of_statsmodels():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(12, 1)) + 0.5 * rng.normal(size=(1, 4)) + rng.normal(size=(12, 4))
    rows = [(str(d), str(f), values[d, f]) for d in range(12) for f in range(4)]
    table = anova_lm(smf.ols("y ~ d + f", pd.DataFrame(rows, columns=["d", "f", "y"])).fit())
    squares = table["sum_sq"] / table["df"]
    split = variance_split(values)
    assert split.rest == pytest.approx(squares["Residual"])
    assert split.components["document"] == pytest.approx((squares["d"] - squares["Residual"]) / 4)
    assert split.components["format"] == pytest.approx(max(0, (squares["f"] - squares["Residual"]) / 12))


def test_simulated_effects_are_recovered():
    rng = np.random.default_rng(1)
    splits = []
    for _ in range(60):
        values = (
            2.0 * rng.normal(size=(60, 1, 1))
            + 1.0 * rng.normal(size=(1, 20, 1))
            + 0.5 * rng.normal(size=(1, 1, 10))
            + 0.7 * rng.normal(size=(60, 20, 1))  # forms that suit some documents
            + 0.6 * rng.normal(size=(1, 20, 10))  # examples that suit some forms
            + 0.4 * rng.normal(size=(60, 20, 10))
        )
        splits.append(variance_split(values, ("document", "format", "shots")))
    assert np.mean([split.components["document"] for split in splits]) == pytest.approx(4.0, rel=0.1)
    assert np.mean([split.components["format"] for split in splits]) == pytest.approx(1.0, rel=0.1)
    assert np.mean([split.components["shots"] for split in splits]) == pytest.approx(0.25, rel=0.15)
    assert np.mean([split.rest for split in splits]) == pytest.approx(0.49 + 0.36 + 0.16, rel=0.05)
    assert sum(splits[0].shares.values()) == pytest.approx(1)


def test_a_model_that_is_blind_to_wording_has_no_variance_of_formats():
    right = np.random.default_rng(2).random(100) < 0.5
    split = variance_split(np.stack([right] * 5, axis=1))
    assert split.shares == pytest.approx({"document": 1.0, "format": 0.0, "rest": 0.0})


def test_a_factor_with_one_level_is_refused():
    with pytest.raises(DataError, match="two or more levels"):
        variance_split([[1.0], [0.0]])
    assert variance_split(np.ones((3, 3))).shares == {"document": 0.0, "format": 0.0, "rest": 0.0}


def split_of(*arguments: Any) -> VarianceSplit:
    split = form_variance(*arguments)
    assert split is not None
    return split


def simulated(rng, *, documents=100, formats=8, draws=5):
    """Scores with variances of 1 for documents, 0.25 for formats, 0.5 for their own examples and 0.36 for the rest."""
    return (
        rng.normal(size=(documents, 1, 1))
        + 0.5 * rng.normal(size=(1, formats, 1))
        + np.sqrt(0.5) * rng.normal(size=(documents, 1, draws))
        + 0.6 * rng.normal(size=(documents, formats, draws))
    )


def test_draws_of_examples_are_told_from_formats():
    rng = np.random.default_rng(5)
    names = [(f"f{form}", str(draw)) for form in range(8) for draw in range(5)]
    splits = []
    for _ in range(60):
        values = simulated(rng).reshape(100, -1)
        order = rng.permutation(len(names))  # whatever the order of the forms is
        formats, draws = zip(*(names[index] for index in order), strict=True)
        splits.append(split_of(document_scores(values[:, order]), formats, draws))
    for name, variance in {"document": 1.0, "format": 0.25, "shots": 0.5}.items():
        assert np.mean([split.components[name] for split in splits]) == pytest.approx(variance, rel=0.1)
    assert np.mean([split.rest for split in splits]) == pytest.approx(0.36, rel=0.02)
    # A split that knows nothing of draws takes what examples change for the rest.
    assert variance_split(values).rest > 0.6


def test_one_format_under_several_draws_varies_by_its_examples_alone():
    values = simulated(np.random.default_rng(6), documents=2000, formats=1)[:, 0]
    split = split_of(document_scores(values), ["mcqa"] * 5, [str(draw) for draw in range(5)])
    assert list(split.components) == ["document", "shots"]
    assert split.components["shots"] == pytest.approx(0.5 + 0.36, rel=0.05)
    assert split.rest == 0


def test_formats_that_lack_a_draw_are_left_out():
    values = np.random.default_rng(7).random((30, 5))
    formats, draws = ["mcqa", "mcqa", "cloze", "hybrid", "hybrid"], ["0", "1", "0", "1", "0"]
    split = split_of(document_scores(values), formats, draws)
    assert split.forms == (0, 1, 3, 4)
    assert list(split.components) == ["document", "format", "shots"]
    assert form_variance(document_scores(values[:, :2]), ["mcqa", "cloze"], ["0", "1"]) is None


def test_subjects_of_a_group_count_by_their_weights():
    """A large subject, on which all forms agree, and a small one on which they do not."""
    rng, splits = np.random.default_rng(8), []
    for _ in range(200):
        large = rng.normal(size=(90, 1)) + np.zeros((1, 4))
        small = rng.normal(size=(30, 1)) + rng.normal(size=(30, 4))
        scores = pool_subjects([document_scores(large), document_scores(small)], [1, 1])
        splits.append(split_of(scores, list("abcd"), ["0"] * 4))
    assert np.mean([split.rest for split in splits]) == pytest.approx(0.5, rel=0.05)
    assert np.mean([split.components["document"] for split in splits]) == pytest.approx(1, rel=0.05)


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
    noisy = Components(document=0.05, wording=0.0, rest=0.0, repeat=0.2)
    assert advise(noisy, 0.05, documents=1000).repeats == 1
    scarce = advise(noisy, 0.05, documents=120)
    assert scarce.evaluations > 120
    assert scarce.wordings * scarce.repeats > 1


def test_repeats_do_not_help_against_wordings_that_suit_some_documents_only():
    suited = Components(document=0.05, wording=0.0005, rest=0.2, repeat=0.001)
    assert advise(suited, 0.06, documents=120).repeats == 1
    assert suited.variance(RunDesign(documents=100, repeats=16)) > 0.99 * suited.variance(RunDesign(documents=100))


def test_the_variance_of_repeats_is_recovered_from_the_shares_of_right_repeats():
    """Documents differ in how often they are right, and wordings suit some of them; repeats are coin flips."""
    rng, repeats, splits = np.random.default_rng(4), 5, []
    for _ in range(60):
        rates = np.clip(0.6 + 0.15 * rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 8)), 0.02, 0.98)
        shares = rng.binomial(repeats, rates) / repeats
        components = wording_population(form_means(document_scores(shares))).components
        variance = repeat_variance(shares, repeats)
        assert variance is not None
        splits.append((variance, components.split_repeats(variance, repeats).rest, (rates * (1 - rates)).mean()))
    measured, rest, true = np.mean(splits, axis=0)
    assert measured == pytest.approx(true, rel=0.01)
    assert rest == pytest.approx(0.01, rel=0.15)


def test_a_run_with_more_repeats_has_the_promised_interval():
    rng, repeats = np.random.default_rng(5), 4
    rates = np.clip(0.6 + 0.1 * rng.normal(size=(4000, 1)) + 0.05 * rng.normal(size=(4000, 6)), 0.02, 0.98)
    pilot = rng.binomial(repeats, rates[:400]) / repeats
    variance = repeat_variance(pilot, repeats)
    assert variance is not None
    components = wording_population(form_means(document_scores(pilot))).components.split_repeats(variance, repeats)
    for number in (1, 4, 16):
        means = [(rng.binomial(number, rates[rng.integers(0, 4000, 100)]) / number).mean() for _ in range(600)]
        design = RunDesign(documents=100, wordings=6, repeats=number)
        without_wordings = components.variance(design) - components.wording / 6  # here the wordings are the same ones
        assert np.std(means) == pytest.approx(np.sqrt(without_wordings), rel=0.12)


@pytest.mark.parametrize(("values", "repeats"), [([0.0, 1.0], 1), ([0.3, 0.9], 2), ([2.0, 4.0], 2)])
def test_values_that_are_no_shares_of_repeats_say_nothing_of_them(values, repeats):
    assert repeat_variance(values, repeats) is None


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


@pytest.mark.parametrize("difference", [0.0, -0.1, 1.5])
def test_no_number_of_documents_detects_what_is_no_difference(difference):
    with pytest.raises(DataError, match="expected a difference above 0"):
        needed_documents(difference)
