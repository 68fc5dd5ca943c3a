"""Aggregations: from the values of all documents to one number with its uncertainty.

The values are those of lm-eval 0.4.13, and so are the standard errors where it has them: the sample standard error of a
mean, and the bootstrap for a fixed list of others, capped for the slow ones.
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

if TYPE_CHECKING:
    import numpy as np


def resamples(n: int, iterations: int) -> Iterator[np.ndarray[Any, Any]]:
    """The indexes of resamples, one row each, in chunks of 1000 as lm-eval draws them.

    >>> import random
    >>> rows = next(resamples(5, 1000))
    >>> rows[0].tolist() == random.Random(0).choices(range(5), k=5)
    True
    """
    import numpy as np

    chunk = min(1000, iterations)
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
        resampled = [float(function([items[i] for i in row])) for rows in resamples(n, draws) for row in rows]
        estimate = resampled_estimate(value, n, resampled)
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
    import numpy as np

    values = np.asarray(items, dtype=np.float64)
    known = values[~np.isnan(values)].tolist()
    if not known:
        return Estimate(value=math.nan, n=0)
    if iterations == 0 or len(known) < 2:
        return replace(mean_estimate(known), stderr=None)
    drawn = [values[rows] for rows in resamples(len(values), iterations)]
    # Resamples without any value have no mean.
    means = np.concatenate([np.nanmean(rows[~np.isnan(rows).all(axis=1)], axis=1) for rows in drawn])
    return replace(mean_estimate(known), stderr=float(np.std(means, ddof=1)))


@_register("perplexity", "number")
def perplexity(items: Sequence[Any], iterations: int) -> Estimate:
    """exp of the negative mean log-likelihood; the interval is that of the mean, on the scale of logarithms."""
    import numpy as np

    estimate, values = exponential(mean_estimate([-float(item) for item in items])), np.asarray(items, dtype=np.float64)
    if iterations == 0 or len(items) < 2:
        return estimate
    means = np.concatenate([values[rows].mean(axis=1) for rows in resamples(len(values), iterations)])
    return replace(estimate, stderr=float(np.std(np.exp(-means), ddof=1)))


@_register("weighted_perplexity", "pair")
def weighted_perplexity(items: Sequence[tuple[float, float]], iterations: int) -> Estimate:
    """exp of the negative log-likelihood per word or byte, over all documents together."""
    return replace(exponential(ratio_estimate(items, scale=-1.0)), stderr=None)


def exponential(estimate: Estimate) -> Estimate:
    """exp of an estimate and of its bounds, which are infinite if they are too large for a number."""

    def exp(value: float) -> float:
        try:
            return math.exp(value)
        except OverflowError:
            return math.inf

    low, high = (None if bound is None else exp(bound) for bound in (estimate.low, estimate.high))
    return Estimate(value=exp(estimate.value), n=estimate.n, low=low, high=high)


@_register("bits_per_byte", "pair")
def bits_per_byte(items: Sequence[tuple[float, float]], iterations: int) -> Estimate:
    """Bits per byte over all documents together."""
    return _at_least_zero(ratio_estimate(items, scale=-1 / math.log(2)))


def _at_least_zero(estimate: Estimate) -> Estimate:
    """The estimate of a metric that cannot be negative, which the interval of a few skewed values may be."""
    return estimate if estimate.low is None else replace(estimate, low=max(0.0, estimate.low))


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

    errors = [squared_error(*item) if isinstance(item, list | tuple) else float(item) for item in items]
    return _at_least_zero(mean_estimate(errors))


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

    both, golds, preds = (counts.astype(np.float64) for counts in _rates(items))
    squares = float(len(items)) ** 2
    scale = float((squares - preds @ preds) * (squares - golds @ golds))
    return float(both.sum() * len(items) - golds @ preds) / math.sqrt(scale) if scale else 0.0


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
_register("f1", "pair")(_with_bootstrap(_f1, most=1.0))
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
    `filter_list` (by default all filters), an `aggregation` (one of a group's `AGGREGATIONS` or a function) and
    `weight_by_size` (by default true).
    """
    scores_by_key: dict[str, Estimate] = {}
    for entry in aggregate_metric_list:
        filters = entry.get("filter_list")
        for key in dict.fromkeys(key for scores in tasks for key in scores):
            metric, _, filter_name = key.partition(",")
            chosen = filters is None or filter_name in ([filters] if isinstance(filters, str) else filters)
            if chosen and entry["metric"] in ("all", metric):
                scores_by_key[key] = _combine(entry, [scores[key] for scores in tasks if key in scores])
    return scores_by_key


def _combine(entry: Mapping[str, Any], estimates: Sequence[Estimate]) -> Estimate:
    aggregation, by_size = entry.get("aggregation", "mean"), entry.get("weight_by_size", True)
    values, sizes = [estimate.value for estimate in estimates], [estimate.n for estimate in estimates]
    if aggregation == "adjusted_harmonic_mean":
        return _adjusted_harmonic_mean(estimates)
    if callable(aggregation):
        hint = "call it as aggregation(scores, sizes, weight_by_size=True), and return one number"
        with running(f"aggregation '{name_of(aggregation)}' of a group", hint=hint):
            value = float(aggregation(values, sizes, weight_by_size=by_size))
    else:
        weights = sizes if by_size else [1] * len(sizes)
        total = math.fsum(v * w for v, w in zip(values, weights, strict=True))
        value = total / sum(weights) if any(weights) else math.nan  # no task has a value
    errors = [estimate.stderr for estimate in estimates if estimate.stderr is not None]
    if len(errors) < len(estimates):
        return Estimate(value=value, n=sum(sizes))
    stderr: float | None = math.sqrt(math.fsum(error**2 for error in errors)) / len(errors)
    if by_size:  # that of the mean over all documents, from the pooled variance of the tasks
        squares = math.fsum((n - 1) * error**2 * n for error, n in zip(errors, sizes, strict=True))
        freedom = sum(sizes) - len(sizes)
        stderr = math.sqrt(squares / freedom / sum(sizes)) if freedom > 0 else None
    return normal_estimate(value, stderr, sum(sizes))


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
