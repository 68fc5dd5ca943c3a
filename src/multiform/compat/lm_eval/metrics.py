"""The functions of lm-eval that tasks aggregate and score with, and those of SQuAD that transformers had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multiform.scoring.aggregations import aggregations
from multiform.scoring.metrics.text import answer_words, word_f1

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
    return aggregations.get("brier_score")(list(items), 0).value


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], float], prediction: Any, ground_truths: Iterable[Any]
) -> float:
    """The best value of a metric over several right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def normalize_answer(s: str) -> str:
    """The text in lower case, without punctuation and articles, its words one space apart.

    >>> normalize_answer("The  Eiffel-Tower, an icon.")
    'eiffeltower icon'
    """
    return " ".join(answer_words(s))


def get_tokens(s: str) -> list[str]:
    """The words of the normalized text."""
    return answer_words(s or "")


def compute_exact(a_gold: str, a_pred: str) -> int:
    """1 where both are the same once normalized, else 0."""
    return int(answer_words(a_gold) == answer_words(a_pred))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """The harmonic mean of the precision and the recall of words; of two texts without any words, 1.

    >>> compute_f1("the red house", "a red car")
    0.5
    """
    return word_f1(get_tokens(a_pred), get_tokens(a_gold))
