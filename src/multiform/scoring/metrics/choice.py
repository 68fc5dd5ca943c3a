"""Metrics of ranked choices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from multiform.errors import ModelError
from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome


def best(scores: Sequence[float]) -> int:
    """The index of the highest score, the first of equals."""
    return max(range(len(scores)), key=scores.__getitem__)


def _best_per(outcome: ChoiceOutcome, lengths: Sequence[int]) -> int:
    return best([ll / n if n else -math.inf for ll, n in zip(outcome.loglikelihoods, lengths, strict=True)])


def probabilities(loglikelihoods: Sequence[float]) -> list[float]:
    """The log-likelihoods as probabilities that add up to one."""
    top = max(loglikelihoods)
    weights = [math.exp(ll - top) for ll in loglikelihoods]
    return [weight / math.fsum(weights) for weight in weights]


@register_metric("acc", output_type=["multiple_choice", "loglikelihood"])
def acc(outcome: ChoiceOutcome | LikelihoodOutcome) -> float:
    """Whether the most likely choice is correct; for a single continuation, whether greedy decoding gives it."""
    if isinstance(outcome, LikelihoodOutcome):
        return float(outcome.is_greedy)
    return float(best(outcome.loglikelihoods) in outcome.gold)


@register_metric("acc_norm", output_type="multiple_choice")
def acc_norm(outcome: ChoiceOutcome) -> float:
    """Whether the choice that is most likely per character is correct."""
    return float(_best_per(outcome, [len(choice) for choice in outcome.choices]) in outcome.gold)


@register_metric("acc_bytes", output_type="multiple_choice")
def acc_bytes(outcome: ChoiceOutcome) -> float:
    """Whether the choice that is most likely per byte is correct."""
    return float(_best_per(outcome, [len(choice.encode("utf-8")) for choice in outcome.choices]) in outcome.gold)


@register_metric("acc_tokens", output_type="multiple_choice")
def acc_tokens(outcome: ChoiceOutcome) -> float:
    """Whether the choice that is most likely per token is correct."""
    if not outcome.tokens:
        raise ModelError("acc_tokens needs a model that counts tokens", hint="use acc_norm or acc_bytes instead")
    return float(_best_per(outcome, outcome.tokens) in outcome.gold)


@register_metric("acc_mutual_info", output_type="multiple_choice")
def acc_mutual_info(outcome: ChoiceOutcome) -> float:
    """Whether the choice whose log-likelihood the prompt increases most is correct."""
    pairs = zip(outcome.loglikelihoods, outcome.unconditional, strict=True)
    return float(best([with_prompt - without for with_prompt, without in pairs]) in outcome.gold)


@register_metric("likelihood", output_type="multiple_choice")
def likelihood(outcome: ChoiceOutcome) -> float:
    """The probability of the correct choices among all."""
    chances = probabilities(outcome.loglikelihoods)
    return math.fsum(chances[index] for index in outcome.gold)


@register_metric("brier_score", output_type="multiple_choice", aggregation="brier_score", higher_is_better=False)
def brier_score(outcome: ChoiceOutcome) -> float:
    """The squared error of the probabilities."""
    chances = probabilities(outcome.loglikelihoods)
    right = set(outcome.gold[:1])
    return math.fsum((chance - (index in right)) ** 2 for index, chance in enumerate(chances))


@register_metric("f1", output_type="multiple_choice", aggregation="f1")
def f1(outcome: ChoiceOutcome) -> tuple[int, int]:
    """Gold and prediction, for the F1 of the class 1."""
    return _first(outcome.gold), best(outcome.loglikelihoods)


@register_metric("mcc", output_type="multiple_choice", aggregation="matthews_corrcoef")
def mcc(outcome: ChoiceOutcome) -> tuple[int, int]:
    """Gold and prediction, for Matthews' correlation."""
    return _first(outcome.gold), best(outcome.loglikelihoods)


def _first(gold: Sequence[int]) -> int:
    """The index of the gold choice; where there is none, -100 as in lm-eval."""
    return gold[0] if gold else -100
