"""Aggregations: from the values of all documents to one number with its uncertainty.

The values are those of lm-eval 0.4.13, and so are the standard errors where it has them: the sample
standard error of a mean, and the bootstrap for a fixed list of others, capped for the slow ones. The score of a group
is an aggregate over its tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, DataError, excerpt, running
from multiform.registry import Registry
from multiform.statistics.estimates import (
    LEVEL,
    MIN_RESAMPLES,
    Estimate,
    mean_estimate,
    normal_estimate,
    ratio_estimate,
    recorded_estimate,
    resampled_estimate,
    share_estimate,
)
from multiform.tasks.group import AGGREGATIONS

if TYPE_CHECKING:
    import numpy as np


CHUNK = 1000


def bootstrap_values(statistic: Callable[[Sequence[Any]], float], items: Sequence[Any], iterations: int) -> list[float]:
    """A statistic of resamples of the items."""
    return [float(statistic([items[i] for i in row])) for rows in resamples(len(items), iterations) for row in rows]


def bootstrap_mean_stderr(
    finish: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], values: Sequence[float], iterations: int
) -> float:
    """The standard deviation of a function of the mean over resamples of the values; NaN is a missing value."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    chunks = [finish(np.nanmean(array[rows], axis=1)) for rows in resamples(len(array), iterations)]
    return float(np.std(np.concatenate(chunks), ddof=1))


def resamples(n: int, iterations: int) -> Iterator[np.ndarray[Any, Any]]:
    """The indexes of resamples, one row each, in chunks.

    >>> import random
    >>> rows = next(resamples(5, 1000))
    >>> rows[0].tolist() == random.Random(0).choices(range(5), k=5)
    True
    """
    import numpy as np

    chunk = min(CHUNK, iterations)
    for seed in range(iterations // chunk if chunk else 0):
        draws = np.random.RandomState([seed]).random_sample((chunk, n))
        yield (draws * n).astype(np.int64)


#: Takes the values of all documents and the number of bootstrap resamples.
Aggregation = Callable[[Sequence[Any], int], Estimate]

DEFAULT_ITERATIONS = 100_000
#: Metrics of whole corpora are too slow for more.
SLOW_ITERATIONS = 100
#: Of scores over classes, as many as percentiles need.
_CLASS_ITERATIONS = MIN_RESAMPLES

#: Scores of all texts together, by sacrebleu, and the largest value that each can have.
CORPUS = {"bleu": 100.0, "chrf": 100.0, "chrf++": 100.0, "ter": math.inf}

aggregations: Registry[Aggregation] = Registry("aggregation", raises=ConfigError)

#: What an aggregation takes for each document: a number, a pair such as (gold, prediction), or anything.
ItemKind = Literal["number", "pair", "any"]
_item_kinds: dict[Aggregation, ItemKind] = {}


def item_kind(aggregation: Aggregation) -> ItemKind:
    """What an aggregation takes for each document; "any" for functions that a task brings along."""
    return _item_kinds.get(aggregation, "any")


def _register(name: str, item: ItemKind) -> Callable[[Aggregation], Aggregation]:
    """Register an aggregation that takes such an item for each document."""

    def decorate(aggregation: Aggregation) -> Aggregation:
        _item_kinds[aggregation] = item
        return aggregations.register(name)(aggregation)

    return decorate


def register_aggregation(name: str) -> Callable[[Callable[[Sequence[Any]], float]], Callable[[Sequence[Any]], float]]:
    """Register a function of the list of all values as an aggregation, without a standard error."""

    def decorate(function: Callable[[Sequence[Any]], float]) -> Callable[[Sequence[Any]], float]:
        aggregations.register(name)(plain_aggregation(function))
        return function

    return decorate


def plain_aggregation(function: Callable[[Sequence[Any]], float]) -> Aggregation:
    """The aggregation of a plain function of all values; its attribute `aggregation`, if it has one.

    It gets lists as they are, but a list of one number as that number if it can. If it cannot aggregate lists of
    several numbers, which are the values of repeats, it gets the first of each.
    """
    known: Aggregation | None = getattr(function, "aggregation", None)
    if known is not None:
        return known
    name = name_of(function)
    what = f"aggregation '{name}' cannot be called with the list of all values"
    check_call(function, [], what=what, hint=f"write it as def {name}(values)")

    def aggregate(items: Sequence[Any], iterations: int) -> Estimate:
        attempts = [items]
        if (firsts := _first_numbers(items)) is not None:
            attempts = [firsts, items] if all(len(item) == 1 for item in items) else [items, firsts]
        for values in attempts[:-1]:
            with suppress(Exception):
                return Estimate(value=float(function(values)), n=len(items))
        with running(f"aggregation '{name}'", hint="call it with some values"):
            value = function(attempts[-1])
        try:
            return Estimate(value=float(value), n=len(items))
        except (TypeError, ValueError) as error:
            message = f"aggregation '{name}' returned {excerpt(value)}, not a number"
            raise DataError(message, hint="return one number") from error

    return aggregate


def _first_numbers(items: Sequence[Any]) -> list[Any] | None:
    """The first number of each document's list; None if the values are not lists of numbers.

    >>> _first_numbers([[0.0], [1.0, 2.0]]), _first_numbers([0.0, 1.0]), _first_numbers([["a"]])
    ([0.0, 1.0], None, None)
    """
    listed = all(isinstance(item, list) and item and all(isinstance(x, Real) for x in item) for item in items)
    return [item[0] for item in items] if items and listed else None


def aggregate_values(aggregation: Aggregation, items: Sequence[Any], iterations: int, metric: str) -> Estimate:
    """Aggregate the values of a metric; an error of the aggregation names the metric and its values."""
    hint = f"its values are {excerpt(list(items[:3]))}: give others, or another aggregation"
    with running(f"the aggregation of metric '{metric}'", hint=hint):
        return aggregation(items, iterations)


def _with_bootstrap(
    function: Callable[[Sequence[Any]], float], cap: int = DEFAULT_ITERATIONS, most: float | None = None
) -> Aggregation:
    """An aggregation with an interval by the bootstrap; with `most`, its values and bounds are from 0 to that."""

    def aggregate(items: Sequence[Any], iterations: int) -> Estimate:
        draws = min(iterations, cap)
        value, n = float(function(items)), len(items)
        if draws == 0 or n < 2:
            return Estimate(value=value, n=n)
        estimate = resampled_estimate(value, n, bootstrap_values(function, items, draws))
        if most == 1 and not estimate.stderr:  # all documents are right or wrong, and so are all resamples
            return recorded_estimate(value, estimate.stderr, n)
        if most is None or estimate.low is None or estimate.high is None:
            return estimate
        return replace(estimate, low=max(0.0, estimate.low), high=min(most, estimate.high))

    return aggregate


@_register("mean", "number")
def mean(items: Sequence[Any], iterations: int) -> Estimate:
    """The mean over documents."""
    return mean_estimate([float(item) for item in items])


@_register("nanmean", "number")
def nanmean(items: Sequence[Any], iterations: int) -> Estimate:
    """The mean over the documents that have a value."""
    values = [float(item) for item in items]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Estimate(value=math.nan, n=0)
    estimate = mean_estimate(known)
    sure = iterations > 0 and len(known) > 1
    return replace(estimate, stderr=bootstrap_mean_stderr(lambda means: means, values, iterations) if sure else None)


@_register("perplexity", "number")
def perplexity(items: Sequence[Any], iterations: int) -> Estimate:
    """exp of the negative mean log-likelihood; the interval is that of the mean, on the scale of logarithms."""
    import numpy as np

    known = iterations > 0 and len(items) > 1
    stderr = bootstrap_mean_stderr(lambda means: np.exp(-means), items, iterations) if known else None
    return replace(exponential(mean_estimate([-float(item) for item in items])), stderr=stderr)


@_register("weighted_perplexity", "pair")
def weighted_perplexity(items: Sequence[tuple[float, float]], iterations: int) -> Estimate:
    """exp of the negative log-likelihood per word or byte, over all documents together."""
    return replace(exponential(ratio_estimate(items, scale=-1.0)), stderr=None)


def exponential(estimate: Estimate) -> Estimate:
    """exp of an estimate and of its bounds, which are infinite if they are too large for a number."""

    def exp(value: float | None) -> float | None:
        if value is None:
            return None
        try:
            return math.exp(value)
        except OverflowError:
            return math.inf

    return Estimate(value=exp(estimate.value) or 0.0, n=estimate.n, low=exp(estimate.low), high=exp(estimate.high))


@_register("bits_per_byte", "pair")
def bits_per_byte(items: Sequence[tuple[float, float]], iterations: int) -> Estimate:
    """Bits per byte over all documents together."""
    return ratio_estimate(items, scale=-1 / math.log(2))


@_register("ratio", "pair")
def ratio(items: Sequence[tuple[float, float]], iterations: int) -> Estimate:
    """The sum of the first numbers of pairs over the sum of the second.

    >>> ratio([(1, 2), (2, 2)], 0).value
    0.75
    """
    return share_estimate(items)


@_register("brier_score", "pair")
def brier_score(items: Sequence[Any], iterations: int) -> Estimate:
    """The mean of squared errors, or of those of pairs of the gold index and the probabilities.

    >>> brier_score([(0, [0.5, 0.5]), (1, [0.0, 1.0])], 0).value
    0.25
    """

    def squared_error(gold: int, probabilities: Sequence[float]) -> float:
        return math.fsum((p - float(index == gold)) ** 2 for index, p in enumerate(probabilities))

    return mean_estimate([squared_error(*item) if isinstance(item, list | tuple) else float(item) for item in items])


@aggregations.register("bypass")
def bypass(items: Sequence[Any], iterations: int) -> Estimate:
    """999, in place of a score that is not computed."""
    return Estimate(value=999.0, n=len(items))


def _f1(items: Sequence[tuple[int, int]]) -> float:
    """F1 of the class 1, from pairs of gold and prediction."""
    true_positives = sum(1 for gold, pred in items if gold == 1 and pred == 1)
    either = sum((gold == 1) + (pred == 1) for gold, pred in items)
    return 2 * true_positives / either if either else 0.0


def _rates(items: Sequence[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """Of each class of gold and prediction: how often both have it, gold has it, the prediction has it."""
    import numpy as np

    golds, preds = (np.asarray(side) for side in zip(*items, strict=True))
    classes = np.union1d(golds, preds)[:, None]
    gold, pred = classes == golds, classes == preds
    return (gold & pred).sum(axis=1), gold.sum(axis=1), pred.sum(axis=1)


def _macro_f1(items: Sequence[tuple[int, int]]) -> float:
    """The mean F1 of all classes that gold or prediction have.

    >>> _macro_f1([(0, 0), (0, 1), (1, 1)])
    0.6666666666666666
    """
    both, golds, preds = _rates(items)
    return float((2 * both / (golds + preds)).mean())


def _balanced_accuracy(items: Sequence[tuple[int, int]]) -> float:
    """The mean recall of all classes that gold has.

    >>> _balanced_accuracy([(0, 0), (0, 1), (1, 1)])
    0.75
    """
    both, golds, _ = _rates(items)
    return float((both[golds > 0] / golds[golds > 0]).mean())


def _matthews(items: Sequence[tuple[int, int]]) -> float:
    """Matthews' correlation of gold and prediction, for any number of classes."""
    import numpy as np

    golds, preds = (np.asarray(side) for side in zip(*items, strict=True))
    classes = np.union1d(golds, preds)
    t = np.array([(golds == c).sum() for c in classes], dtype=np.float64)
    p = np.array([(preds == c).sum() for c in classes], dtype=np.float64)
    n = float(len(golds))
    covariance = float((golds == preds).sum()) * n - float(t @ p)
    scale = math.sqrt(n * n - float(p @ p)) * math.sqrt(n * n - float(t @ t))
    return covariance / scale if scale else 0.0


def _corpus(name: str) -> Callable[[Sequence[Any]], float]:
    """A score of sacrebleu over pairs of references and predictions."""

    def score(items: Sequence[Any]) -> float:
        import sacrebleu

        references = [item[0] if isinstance(item[0], list | tuple) else [item[0]] for item in items]
        predictions = [str(item[1]) for item in items]
        most = max(len(refs) for refs in references)
        streams: list[Any] = [[str(refs[i]) if i < len(refs) else None for refs in references] for i in range(most)]
        options = {"word_order": 2} if name == "chrf++" else {}
        return float(getattr(sacrebleu, f"corpus_{name.rstrip('+')}")(predictions, streams, **options).score)

    return score


_register("median", "number")(_with_bootstrap(lambda items: sorted(items)[len(items) // 2]))  # the upper one of two
_register("f1", "pair")(_with_bootstrap(_f1))
_register("macro_f1", "pair")(_with_bootstrap(_macro_f1, cap=_CLASS_ITERATIONS, most=1.0))
_register("balanced_accuracy", "pair")(_with_bootstrap(_balanced_accuracy, cap=_CLASS_ITERATIONS, most=1.0))
_register("matthews_corrcoef", "pair")(_with_bootstrap(_matthews))
for _name in CORPUS:
    _register(_name, "pair")(_with_bootstrap(_corpus(_name), cap=SLOW_ITERATIONS, most=CORPUS[_name]))

TaskEstimates = Mapping[str, Estimate]
#: What is added to the scores of tasks before their harmonic mean, which would be 0 if one of them were.
_ADJUSTMENT = 0.01
_HARMONIC_DRAWS = 10_000


def group_scores(
    aggregate_metric_list: Sequence[Mapping[str, Any]], tasks: Sequence[TaskEstimates]
) -> dict[str, Estimate]:
    """Aggregate the scores of a group's tasks, each metric over the tasks that have it.

    An entry of `aggregate_metric_list` has a `metric` (``all`` for each that the tasks have), and optionally a
    `filter_list` (by default all filters), an `aggregation` (one of `AGGREGATIONS` or a function) and
    `weight_by_size` (by default true).
    """
    scores_by_key: dict[str, Estimate] = {}
    for entry in aggregate_metric_list:
        for key in _keys(entry, tasks):
            scores_by_key[key] = _combine(entry, [scores[key] for scores in tasks if key in scores])
    return scores_by_key


def _keys(entry: Mapping[str, Any], tasks: Sequence[TaskEstimates]) -> list[str]:
    names = entry.get("filter_list")
    filter_names = [names] if isinstance(names, str) else names
    present = dict.fromkeys(key for scores in tasks for key in scores)
    chosen = [key for key in present if entry["metric"] in ("all", key.partition(",")[0])]
    return chosen if filter_names is None else [key for key in chosen if key.partition(",")[2] in filter_names]


def _combine(entry: Mapping[str, Any], estimates: Sequence[Estimate]) -> Estimate:
    by_size = entry.get("weight_by_size", True)
    aggregation, values, sizes = (
        entry.get("aggregation", "mean"),
        [e.value for e in estimates],
        [e.n for e in estimates],
    )
    if callable(aggregation):
        value = float(aggregation(values, sizes, weight_by_size=by_size))
    elif aggregation == "mean":
        weights = sizes if by_size else [1] * len(sizes)
        value = math.fsum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    elif aggregation == "adjusted_harmonic_mean":
        return _adjusted_harmonic_mean(estimates)
    else:
        message = f"aggregation: expected {' or '.join(AGGREGATIONS)} or a function, got {excerpt(aggregation)}"
        raise ConfigError(message, hint="write aggregation: mean")
    errors = [estimate.stderr for estimate in estimates]
    if any(error is None for error in errors):
        return Estimate(value=value, n=sum(sizes))
    known = [error for error in errors if error is not None]
    # The standard error of the plain mean of independent means, or of the mean over all documents.
    plain = math.sqrt(math.fsum(error**2 for error in known)) / len(known)
    return normal_estimate(value, _pooled_stderr(known, sizes) if by_size else plain, sum(sizes))


def _adjusted_harmonic_mean(estimates: Sequence[Estimate]) -> Estimate:
    """The harmonic mean of accuracies that are 0.01 larger, each task counting the same.

    The mean depends most on tasks with hardly a right answer, whose standard errors are 0 or nearly so. Its interval is
    that of draws from what the accuracies may be: the beta distributions of rates of which nothing was known before.

    >>> round(_adjusted_harmonic_mean([Estimate(value=0.0, n=9), Estimate(value=0.19, n=9)]).value, 6)
    0.019048
    """
    import numpy as np

    values, sizes = np.array([(e.value, e.n) for e in estimates], dtype=np.float64).T
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("a harmonic mean of tasks needs scores from 0 to 1", hint="write aggregation: mean")

    def harmonic(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(len(values) / (1 / (scores + _ADJUSTMENT)).sum(axis=-1))

    right, value, draws = values * sizes, float(harmonic(values)), (_HARMONIC_DRAWS, len(values))
    drawn = harmonic(np.random.default_rng(0).beta(right + 1, sizes - right + 1, size=draws))
    low, high = np.quantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Estimate(value=value, n=int(sizes.sum()), low=min(low, value), high=max(high, value))


def _pooled_stderr(errors: Sequence[float], sizes: Sequence[int]) -> float | None:
    """The standard error of the mean over all documents, from the pooled variance of the tasks."""
    freedom = sum(sizes) - len(sizes)
    if freedom <= 0:
        return None
    squares = math.fsum((n - 1) * error**2 * n for error, n in zip(errors, sizes, strict=True))
    return math.sqrt(squares / freedom / sum(sizes))
