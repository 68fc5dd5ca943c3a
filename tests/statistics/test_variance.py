"""The split of variance, against statsmodels' analysis of variance and simulated effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from multiform.errors import DataError
from multiform.statistics.scores import document_scores, pooled
from multiform.statistics.variance import VarianceSplit, form_variance, variance_split


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
        scores = pooled([document_scores(large), document_scores(small)], [1, 1])
        splits.append(split_of(scores, list("abcd"), ["0"] * 4))
    assert np.mean([split.rest for split in splits]) == pytest.approx(0.5, rel=0.05)
    assert np.mean([split.components["document"] for split in splits]) == pytest.approx(1, rel=0.05)
