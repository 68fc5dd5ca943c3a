"""The score of a model over a population of wordings, of which the forms of a run are a sample.

Variations of a format, draws of few-shot examples and orders of the choices are exchangeable: another run could have
drawn others. Documents and wordings are crossed random effects. With m the means of F wordings over the same documents
and S the covariance of their sampling errors (`FormMeans`, which knows clusters and groups):

* the variance of the F means is that between wordings plus the noise of a mean, (tr S − 1'S1/F) / (F − 1);
* the overall mean has the variance 1'S1/F², as documents are a sample, plus that between wordings over F.

Degrees of freedom are Satterthwaite's. For a balanced table without clusters the estimates are those of the analysis of
variance and, where no component is negative, of restricted maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, stdtr, stdtrit

from multiform.errors import DataError
from multiform.statistics.design import Components
from multiform.statistics.differences import holm
from multiform.statistics.estimates import LEVEL, Estimate, rate_bounds
from multiform.statistics.means import Array, FormMeans

#: The fewest wordings that say something of others.
MIN_WORDINGS = 3
#: The quantiles of the interval of a standard deviation assume normal effects of wordings; a level of 97 % still covers
#: 93 % or more where effects are as skewed as those of rates near 0 and 1.
_DEVIATION_LEVEL = 0.97


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordingPopulation:
    """What F wordings of one task say of all wordings like them."""

    #: The number of wordings.
    wordings: int
    #: The mean over the population of wordings and of documents.
    mean: Estimate
    #: The standard deviation of the true scores of wordings; its interval is conservative.
    deviation: Estimate
    #: The score of another wording on the same documents: the bounds are a prediction interval.
    predicted: Estimate
    #: The share of the variance of the observed scores that is due to wordings, not to noise.
    reliability: float
    #: The estimated score of each wording, drawn towards the mean by what is noise in it.
    shrunken: tuple[Estimate, ...]
    #: The variances of a single score that it consists of.
    components: Components
    #: The standard deviation of the observed scores, the ± of "mean ± SD" in papers; it includes noise.
    observed_deviation: float

    def reversal(self) -> float:
        """For differences between two models: how probably another wording reverses their order on these documents."""
        spread = self.observed_deviation * math.sqrt(1 + 1 / self.wordings)
        if spread == 0:
            return 0.0 if self.mean.value else 0.5
        return float(stdtr(self.wordings - 1, -abs(self.mean.value) / spread))


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisEffect:
    """How much a value of an axis, such as ``labels=roman``, raises the score above the mean of all wordings."""

    axis: str
    value: str
    #: The number of wordings with this value.
    wordings: int
    #: The interval holds for all values of all axes at once (Bonferroni).
    effect: Estimate
    #: The p value of the test that the axis has no effect, after Holm's correction for all axes.
    p: float


def wording_population(means: FormMeans) -> WordingPopulation:
    """The population that the forms of `means` are a sample of.

    >>> from multiform.statistics.means import form_means
    >>> from multiform.statistics.means import document_scores
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random((400, 12)) < 0.6 + 0.1 * rng.standard_normal(12)
    >>> population = wording_population(form_means(document_scores(right)))
    >>> round(population.mean.value, 2), round(population.deviation.value, 2)
    (0.6, 0.08)
    """
    count = len(means.values)
    if count < MIN_WORDINGS:
        hint = f"draw {MIN_WORDINGS} or more, e.g. with mcqa~{MIN_WORDINGS}"
        raise DataError(f"{count} wordings say nothing of others", hint=hint)
    observed = float(means.values.var(ddof=1))
    # The mean variance of a form's mean about that of all forms, as far as it is sampling error.
    noise = float((np.trace(means.covariance) - means.covariance.sum() / count) / (count - 1))
    between = max(0.0, observed - noise)
    overall, documents = float(means.values.mean()), _mean_variance(means)
    variance = documents + between / count
    critical = _critical(means, observed, noise, documents)
    half = critical * math.sqrt(variance)
    low, high = overall - half, overall + half
    if means.rates:
        n = overall * (1 - overall) / variance if variance and 0 < overall < 1 else means.equivalent
        low, high = rate_bounds(overall, n, critical)
    step = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * math.sqrt(observed * (1 + 1 / count))
    # The variance between wordings, from the chi-squared distribution of the observed one. Wordings whose scores differ
    # by less than noise alone do so by luck, which is no proof that they are equal.
    tail = (1 - _DEVIATION_LEVEL) / 2
    least = max(0.0, (count - 1) * observed / float(chdtri(count - 1, tail)) - noise)
    most = max(0.0, (count - 1) * max(observed, noise) / float(chdtri(count - 1, 1 - tail)) - noise)
    return WordingPopulation(
        wordings=count,
        mean=Estimate(value=overall, n=means.n, stderr=math.sqrt(variance), low=low, high=high),
        deviation=Estimate(value=math.sqrt(between), n=count, low=math.sqrt(least), high=math.sqrt(most)),
        predicted=_within(means, Estimate(value=overall, n=means.n, low=overall - step, high=overall + step)),
        reliability=between / observed if observed else 0.0,
        shrunken=_shrink(means, overall, between, noise, critical),
        components=Components(
            document=max(0.0, documents - noise / count) * means.n, wording=between, rest=max(0.0, noise) * means.n
        ),
        observed_deviation=math.sqrt(observed),
    )


def axis_effects(means: FormMeans, axes: Sequence[Mapping[str, str]], *, permutations: int = 9_999) -> list[AxisEffect]:
    """The effect of every value of every axis on which the wordings differ; `axes` has the values of each wording.

    Wordings are drawn at random, so that the other axes are noise between the wordings with one value. Whether an axis
    matters at all is tested by permuting its values among the wordings.
    """
    names = dict.fromkeys(axis for wording in axes for axis in wording)
    levels = {axis: np.array([wording.get(axis, "") for wording in axes]) for axis in names}
    counts = {axis: np.unique(values, return_counts=True)[1] for axis, values in levels.items()}
    # Only an axis with two or more values, one of them under several wordings, can be tested.
    levels = {axis: levels[axis] for axis, number in counts.items() if len(number) > 1 and number.max() > 1}
    number = sum(len(np.unique(values)) for values in levels.values())
    rng = np.random.default_rng(0)
    tests = holm([_permutation_test(means.values, values, permutations, rng) for values in levels.values()])
    each = 1 - (1 - LEVEL) / max(1, number)
    return [
        AxisEffect(axis=axis, value=str(value), wordings=int((values == value).sum()), p=float(p),
                   effect=_effect(means, values, value, each))
        for (axis, values), p in zip(levels.items(), tests, strict=True)
        for value in np.unique(values)
    ]  # fmt: skip


def _mean_variance(means: FormMeans) -> float:
    """The variance of the mean of these forms, as the documents are a sample."""
    variance = float(means.covariance.sum()) / len(means.values) ** 2
    return max(0.0, variance) + (float(np.diag(means.unseen).min()) if means.rates else 0.0)


def _critical(means: FormMeans, observed: float, noise: float, documents: float) -> float:
    """The quantile for documents + (observed − noise) / wordings, with Satterthwaite's degrees of freedom.

    A sum of mean squares has no fewer degrees of freedom than its least certain part.
    """
    wordings, share = len(means.values) - 1, 1 / len(means.values)
    known = means.freedom if math.isfinite(means.freedom) else max(1.0, means.equivalent - 1)
    between = max(0.0, observed - noise)
    squares = documents**2 / known + (share * max(observed, noise)) ** 2 / wordings
    squares += (share * noise) ** 2 / (known * wordings)
    freedom = max((documents + share * between) ** 2 / squares if squares else math.inf, min(wordings, known))
    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def _shrink(means: FormMeans, overall: float, between: float, noise: float, critical: float) -> tuple[Estimate, ...]:
    """Best linear unbiased predictions of the forms' scores."""
    share = between / (between + noise) if between + noise else 0.0
    # What is left of the uncertainty about one wording, and that of the mean.
    error = math.sqrt(share * noise + _mean_variance(means))
    scores = (overall + share * (float(value) - overall) for value in means.values)
    return tuple(
        _within(means, Estimate(value=s, n=means.n, stderr=error, low=s - critical * error, high=s + critical * error))
        for s in scores
    )


def _within(means: FormMeans, estimate: Estimate) -> Estimate:
    low, high = estimate.interval
    return replace(estimate, low=max(0.0, low), high=min(1.0, high)) if means.rates else estimate


def _permutation_test(scores: Array, values: Array, permutations: int, rng: np.random.Generator) -> float:
    codes, sizes = np.unique(values, return_inverse=True, return_counts=True)[1:]
    centred = scores - scores.mean()
    rows = np.vstack([centred, rng.permuted(np.tile(centred, (permutations, 1)), axis=1)])
    squares_between = ((rows @ np.eye(len(sizes))[codes]) ** 2 / sizes).sum(axis=1)
    return float((squares_between >= squares_between[0] - 1e-12).mean())


def _effect(means: FormMeans, values: Array, value: str, level: float) -> Estimate:
    """The mean of the wordings with a value minus that of all wordings.

    Its error is the variance between wordings with the same value, which has the noise of their means in it.
    """
    count, inside = len(values), values == value
    contrast = inside / inside.sum() - 1 / count
    codes, sizes = np.unique(values, return_inverse=True, return_counts=True)[1:]
    off = means.values - (np.bincount(codes, means.values) / sizes)[codes]
    freedom = count - len(sizes)
    within = float(off @ off) / freedom * float(contrast @ contrast)
    error = math.sqrt(max(within, float(contrast @ means.covariance @ contrast)))
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    effect = float(contrast @ means.values)
    return Estimate(value=effect, n=means.n, stderr=error, low=effect - half, high=effect + half)
