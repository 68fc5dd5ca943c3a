"""The split of variance, against statsmodels' analysis of variance and simulated effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from multiform.errors import DataError
from multiform.statistics.variance import variance_split


def test_two_factors_are_solved_from_the_mean_squares_of_statsmodels():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(12, 1)) + 0.5 * rng.normal(size=(1, 4)) + rng.normal(size=(12, 4))
    rows = [(str(d), str(f), values[d, f]) for d in range(12) for f in range(4)]
    table = anova_lm(smf.ols("y ~ d + f", pd.DataFrame(rows, columns=["d", "f", "y"])).fit())
    squares = table["sum_sq"] / table["df"]
    split = variance_split(values)
    assert split.rest == pytest.approx(squares["Residual"])
    assert split.components["document"] == pytest.approx((squares["d"] - squares["Residual"]) / 4)
    assert split.components["form"] == pytest.approx(max(0, (squares["f"] - squares["Residual"]) / 12))


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
        splits.append(variance_split(values, ("document", "form", "shots")))
    assert np.mean([split.components["document"] for split in splits]) == pytest.approx(4.0, rel=0.1)
    assert np.mean([split.components["form"] for split in splits]) == pytest.approx(1.0, rel=0.1)
    assert np.mean([split.components["shots"] for split in splits]) == pytest.approx(0.25, rel=0.15)
    assert np.mean([split.rest for split in splits]) == pytest.approx(0.49 + 0.36 + 0.16, rel=0.05)
    assert sum(splits[0].shares.values()) == pytest.approx(1)


def test_a_model_that_is_blind_to_wording_has_no_variance_of_forms():
    right = np.random.default_rng(2).random(100) < 0.5
    split = variance_split(np.stack([right] * 5, axis=1))
    assert split.shares == pytest.approx({"document": 1.0, "form": 0.0, "rest": 0.0})


def test_a_factor_with_one_level_is_refused():
    with pytest.raises(DataError, match="two or more levels"):
        variance_split([[1.0], [0.0]])
    assert variance_split(np.ones((3, 3))).shares == {"document": 0.0, "form": 0.0, "rest": 0.0}
