"""The functions of lm-eval that tasks aggregate and score with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multiform.scoring.aggregations import aggregations, bootstrap_mean_stderr
from multiform.scoring.aggregations import bootstrap_stderr as resampled_stderr
from multiform.scoring.metrics.text import exact_match
from multiform.scoring.outcome import TextOutcome

Aggregate = Callable[[Sequence[Any]], float]


def aggregation_function(name: str) -> Aggregate:
    """A registered aggregation as a function of the values; a task that names it gets its standard error, too."""
    aggregation = aggregations.get(name)

    def aggregate(items: Sequence[Any]) -> float:
        return aggregation(list(items), 0).value

    aggregate.__name__ = aggregate.__qualname__ = name
    aggregate.__module__ = "multiform.compat.lm_eval.api.metrics"  # form identities name it, wherever it is defined
    aggregate.aggregation = aggregation  # type: ignore[attr-defined]
    return aggregate


mean = aggregation_function("mean")
nanmean = aggregation_function("nanmean")
median = aggregation_function("median")
perplexity = aggregation_function("perplexity")
weighted_perplexity = aggregation_function("weighted_perplexity")
bits_per_byte = aggregation_function("bits_per_byte")
f1_score = aggregation_function("f1")
matthews_corrcoef = aggregation_function("matthews_corrcoef")
bleu = aggregation_function("bleu")
chrf = aggregation_function("chrf")
chrfpp = aggregation_function("chrf++")
ter = aggregation_function("ter")
bypass_agg = aggregation_function("bypass")


def brier_score(items: Iterable[tuple[int, Sequence[float]]]) -> float:
    """The mean squared error of probabilities, from pairs of the right class and the probabilities of all.

    >>> brier_score([(0, [1.0, 0.0]), (1, [0.5, 0.5])])
    0.25
    """
    errors = [
        math.fsum((chance - (index == gold)) ** 2 for index, chance in enumerate(chances)) for gold, chances in items
    ]
    return math.fsum(errors) / len(errors)


def exact_match_hf_evaluate(
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """How many predictions equal their references.

    >>> exact_match_hf_evaluate(["Yes.", "no"], ["yes", "yes"], ignore_case=True, ignore_punctuation=True)
    {'exact_match': 0.5}
    """
    scores = [
        exact_match(
            TextOutcome(prediction=str(prediction), references=(str(reference),)),
            regexes_to_ignore=regexes_to_ignore or (),
            ignore_case=ignore_case,
            ignore_punctuation=ignore_punctuation,
            ignore_numbers=ignore_numbers,
        )
        for prediction, reference in zip(predictions, references, strict=True)
    ]
    return {"exact_match": math.fsum(scores) / len(scores)}


def exact_match_fn(**kwargs: Any) -> dict[str, float]:
    """`exact_match_hf_evaluate` by the name under which it is registered."""
    return exact_match_hf_evaluate(**kwargs)


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], float], prediction: Any, ground_truths: Iterable[Any]
) -> float:
    """The best value of a metric over several right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def weighted_mean(items: Iterable[tuple[float, float]]) -> float:
    """The sum of the first over the sum of the second values."""
    values, weights = zip(*items, strict=True)
    return float(sum(values) / sum(weights))


def acc_all(items: Iterable[tuple[Any, Any]]) -> float:
    """How many questions of MultiRC have all their answers judged right, from pairs of judgement and document."""
    right: dict[tuple[Any, Any], bool] = {}
    for judged, doc in items:
        question = (doc["idx"]["paragraph"], doc["idx"]["question"])
        right[question] = right.get(question, True) and (doc["label"] == 1) == judged
    return sum(right.values()) / len(right)


def pop_stddev(arr: Sequence[float]) -> float:
    """The standard deviation of a population."""
    middle = math.fsum(arr) / len(arr)
    return math.sqrt(math.fsum((x - middle) ** 2 for x in arr) / len(arr))


def sample_stddev(arr: Sequence[float]) -> float:
    """The standard deviation that a sample estimates."""
    return pop_stddev(arr) * math.sqrt(len(arr) / (len(arr) - 1))


def mean_stderr(arr: Sequence[float]) -> float:
    """The standard error of a mean."""
    return sample_stddev(arr) / math.sqrt(len(arr))


def acc_all_stderr(items: Iterable[tuple[Any, Any]]) -> float:
    """The standard error of `acc_all`, over the questions."""
    right: dict[Any, bool] = {}
    for judged, doc in items:
        right[doc["idx"]["question"]] = right.get(doc["idx"]["question"], True) and (doc["label"] == 1) == judged
    return mean_stderr([float(value) for value in right.values()])


def bootstrap_stderr(f: Callable[[Sequence[Any]], float], xs: Sequence[Any], iters: int) -> float:
    """The standard error of a function of all values, from so many resamples; the same each time.

    >>> round(bootstrap_stderr(mean, [0.0, 1.0, 1.0, 0.0], iters=1000), 2)
    0.26
    """
    if f is mean:  # the resamples are the same, a thousand at a time
        return bootstrap_mean_stderr(lambda means: means, xs, iters)
    return resampled_stderr(f, xs, iters)


def unweighted_mean_stderr(stderrs: Sequence[float]) -> float:
    """The standard error of the plain mean of independent scores."""
    return math.sqrt(math.fsum(error**2 for error in stderrs)) / len(stderrs)


def stderr_for_metric(metric: Aggregate, bootstrap_iters: int) -> Callable[[Sequence[Any]], float | None] | None:
    """The function that computes the standard error of an aggregation; None where there is none."""
    aggregation = getattr(metric, "aggregation", None)
    if aggregation is None or bootstrap_iters <= 0:
        return None
    return lambda items: aggregation(list(items), bootstrap_iters).stderr


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """The standard error of the mean of several samples together."""
    pooled = sum((n - 1) * se**2 * n for se, n in zip(stderrs, sizes, strict=True)) / (sum(sizes) - len(sizes))
    return math.sqrt(pooled / sum(sizes))


def aggregate_subtask_metrics(metrics: Sequence[float], sizes: Sequence[int], weight_by_size: bool = True) -> float:
    """The mean of the scores of several tasks, each counting by its size or as one."""
    weights = sizes if weight_by_size else [1] * len(sizes)
    return sum(value * n for value, n in zip(metrics, weights, strict=True)) / sum(weights)
