"""The score over a population of wordings: coverage in simulations, and the estimates of a reference implementation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

from multiform.errors import DataError
from multiform.statistics.design import variance_split
from multiform.statistics.means import document_scores, form_means, pool_subjects
from multiform.statistics.wordings import axis_effects, wording_population


@dataclass(frozen=True)
class Cell:
    """A population: the logit of a typical score, and the deviations of wordings, documents and their interaction."""

    wordings: int
    documents: int
    logit: float = 0.0
    wording: float = 0.3
    document: float = 1.5
    interaction: float = 0.7
    cluster: int = 1

    def draw(self, rng):
        """Scores under one wording more than the cell has, and the effect of each wording."""
        clusters = self.documents // self.cluster
        document = np.repeat(rng.normal(0, self.document, clusters), self.cluster)[:, None]
        effects = rng.normal(0, self.wording, self.wordings + 1)
        own = np.repeat(rng.normal(0, self.interaction, (clusters, self.wordings + 1)), self.cluster, axis=0)
        right = rng.random(own.shape) < expit(self.logit + document + effects + own)
        return right.astype(float), effects

    def names(self):
        return (
            None if self.cluster == 1 else np.repeat(np.arange(self.documents // self.cluster), self.cluster).tolist()
        )

    def truth(self):
        """The true score of a wording by its effect, with the mean and the deviation over all wordings."""
        noise = np.random.default_rng(0).normal(0, np.hypot(self.document, self.interaction), 20_000)
        grid = np.linspace(-4, 4, 81)
        scores = np.array([expit(self.logit + self.wording * step + noise).mean() for step in grid])
        weights = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
        mean = float(scores @ weights)
        return self.wording * grid, scores, mean, float(np.sqrt(((scores - mean) ** 2) @ weights))


CELLS = [
    Cell(6, 150),
    Cell(6, 150, wording=0.0),
    Cell(6, 60, document=1.0),
    Cell(8, 100, logit=1.5, wording=0.5, document=2.0),
    Cell(8, 300, logit=2.5, wording=0.4),
    Cell(8, 100, logit=4.0, wording=0.4, document=1.0),
    Cell(8, 200, interaction=1.0, cluster=5),
    Cell(16, 150, logit=-1.0),
    Cell(32, 500, wording=0.2, document=2.0),
]


@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_mean_deviation_and_prediction_cover(cell):
    rng, runs = np.random.default_rng(1), 300
    effects, scores, mean, deviation = cell.truth()
    covered, errors = np.zeros(3), []
    for _ in range(runs):
        values, drawn = cell.draw(rng)
        table = document_scores(values[:, :-1], cell.names())
        population = wording_population(form_means(table))
        covered += [
            population.mean.covers(mean),
            population.deviation.covers(deviation),
            population.predicted.covers(values[:, -1].mean()),
        ]
        best = int(values[:, :-1].mean(axis=0).argmax())
        true = float(np.interp(drawn[best], effects, scores)) if cell.wording else mean
        errors.append((values[:, best].mean() - true, population.shrunken[best].value - true))
    # 93 %, less what 300 runs may be off
    assert (covered / runs >= 0.93 - 0.03).all(), covered / runs
    raw, shrunken = np.array(errors).T
    assert abs(shrunken.mean()) < abs(raw.mean())
    assert np.sqrt((shrunken**2).mean()) <= 1.02 * np.sqrt((raw**2).mean())


def test_components_are_those_of_restricted_maximum_likelihood():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(40, 1)) + 0.6 * rng.normal(size=(1, 8)) + rng.normal(size=(40, 8))
    population = wording_population(form_means(document_scores(values)))
    rows = pd.DataFrame([(1, d, f, values[d, f]) for d in range(40) for f in range(8)], columns=["one", "d", "f", "y"])
    formulas = {"document": "0 + C(d)", "wording": "0 + C(f)"}
    fit = sm.MixedLM.from_formula("y ~ 1", groups="one", re_formula="0", vc_formula=formulas, data=rows).fit()
    split = variance_split(values)
    assert population.components.document == pytest.approx(split.components["document"])
    assert population.components.wording == pytest.approx(split.components["format"])
    assert population.components.rest == pytest.approx(split.rest)
    components = population.components.document, population.components.wording, population.components.rest
    assert components == pytest.approx((*fit.vcomp, fit.scale), rel=1e-3)
    assert population.mean.value == pytest.approx(fit.params["Intercept"])
    assert population.mean.stderr == pytest.approx(fit.bse["Intercept"], rel=1e-3)


def test_a_group_weighs_its_subjects():
    rng = np.random.default_rng(0)
    small, large = (document_scores(rng.random((n, 8)) < rate) for n, rate in ((50, 0.9), (500, 0.4)))
    equal = wording_population(form_means(pool_subjects([small, large], [1, 1])))
    by_size = wording_population(form_means(pool_subjects([small, large], [50, 500])))
    assert equal.mean.value == pytest.approx(0.65, abs=0.03)
    assert by_size.mean.value == pytest.approx(0.445, abs=0.03)


def test_scores_that_are_all_right_still_leave_doubt():
    population = wording_population(form_means(document_scores(np.ones((36, 6)))))
    low, high = population.mean.interval
    assert population.mean.value == high == 1.0
    assert 0.7 < low < 0.95


def test_scores_that_differ_by_less_than_noise_do_not_prove_that_wordings_are_equal():
    right = np.array([[(document + form) % 2 for form in range(6)] for document in range(60)])
    deviation = wording_population(form_means(document_scores(right))).deviation
    assert (deviation.value, deviation.low) == (0, 0)
    assert deviation.interval[1] > 0.03


def test_two_wordings_are_not_a_population():
    with pytest.raises(DataError, match="2 wordings say nothing of others"):
        wording_population(form_means(document_scores(np.eye(4)[:, :2])))


def test_the_order_of_two_models_reverses_as_often_as_predicted():
    rng, runs, predicted, reversed_ = np.random.default_rng(5), 300, 0.0, 0
    for _ in range(runs):
        effects = 0.3 + 0.3 * rng.normal(size=9)
        difference = effects + 0.5 * rng.normal(size=(200, 9))
        population = wording_population(form_means(document_scores(difference[:, :-1])))
        predicted += population.reversal() / runs
        reversed_ += difference[:, -1].mean() * population.mean.value < 0
    assert predicted == pytest.approx(reversed_ / runs, abs=0.04)


def test_the_effect_of_an_axis_is_found_and_that_of_another_is_not():
    rng = np.random.default_rng(2)
    axes = [
        {"labels": str(label), "sep": str(sep)} for label, sep in rng.permutation([(i % 2, i % 4) for i in range(24)])
    ]
    rates = [0.45 + 0.2 * (axis["labels"] == "1") for axis in axes]
    scores = document_scores(rng.random((400, 24)) < rates)
    effects = {(effect.axis, effect.value): effect for effect in axis_effects(form_means(scores), axes)}
    assert effects["labels", "1"].effect.value == pytest.approx(0.1, abs=0.02)
    assert effects["labels", "1"].effect.interval[0] > 0
    assert effects["labels", "1"].p < 0.01
    assert effects["sep", "0"].wordings == 6


@pytest.mark.long
def test_axes_without_an_effect_are_found_in_one_of_twenty_runs_at_most():
    rng, runs, found = np.random.default_rng(4), 200, np.zeros(2)
    for _ in range(runs):
        axes = [{"a": str(rng.integers(2)), "b": str(rng.integers(3)), "c": str(rng.integers(4))} for _ in range(16)]
        rates = np.clip(0.5 + 0.05 * rng.normal(size=16), 0, 1)
        effects = axis_effects(form_means(document_scores(rng.random((100, 16)) < rates)), axes, permutations=199)
        found += [any(effect.p < 0.05 for effect in effects), any(not effect.effect.covers(0.0) for effect in effects)]
    assert (found / runs <= 0.05 + 0.03).all()
