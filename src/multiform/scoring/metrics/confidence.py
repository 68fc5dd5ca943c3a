"""Metrics of a model's confidence in its choice, and of whether it answers "I don't know".

A log-likelihood per character is divided by the length of the continuation, its leading space included.
"""

from __future__ import annotations

import math

from multiform.errors import ConfigError, DataError, shorten
from multiform.scoring.metrics.base import register_metric
from multiform.scoring.metrics.choice import best, probabilities
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome


def _scores(outcome: ChoiceOutcome, normalize: bool) -> list[float]:
    """The log-likelihoods, per character where `normalize` is true."""
    if not normalize:
        return list(outcome.loglikelihoods)
    texts = outcome.scored or outcome.choices
    pairs = zip(outcome.loglikelihoods, texts, strict=True)
    return [loglikelihood / len(text) if text else loglikelihood for loglikelihood, text in pairs]


@register_metric("acc_norm_full", output_type="multiple_choice")
def acc_norm_full(outcome: ChoiceOutcome) -> float:
    """Whether the choice that is most likely per character, the leading space included, is correct."""
    return float(best(_scores(outcome, True)) in outcome.gold)


@register_metric("bits_per_byte_mean", output_type=["multiple_choice", "loglikelihood"], higher_is_better=False)
def bits_per_byte_mean(outcome: ChoiceOutcome | LikelihoodOutcome) -> float:
    """Bits per byte of the gold answer, its leading space included; the mean over documents."""
    if isinstance(outcome, LikelihoodOutcome):
        loglikelihood, size = outcome.loglikelihood, outcome.bytes
    elif not outcome.gold:
        raise DataError("no choice is right: there are no bits per byte", hint="check doc_to_target")
    else:
        index = outcome.gold[0]
        loglikelihood, text = outcome.loglikelihoods[index], (outcome.scored or outcome.choices)[index]
        size = len(text.encode("utf-8", "surrogatepass"))
    if not size:
        raise DataError("the right answer is empty: it has no bits per byte", hint="check doc_to_target")
    return -loglikelihood / (size * math.log(2))


@register_metric("probability_mass", output_type="multiple_choice")
def probability_mass(outcome: ChoiceOutcome) -> float:
    """The probability of the correct choices among all."""
    return _mass(outcome, normalize=False)


@register_metric("probability_mass_norm", output_type="multiple_choice")
def probability_mass_norm(outcome: ChoiceOutcome) -> float:
    """The probability of the correct choices among all, from log-likelihoods per character."""
    return _mass(outcome, normalize=True)


def _mass(outcome: ChoiceOutcome, *, normalize: bool) -> float:
    chances = probabilities(_scores(outcome, normalize))
    return math.fsum(chances[index] for index in outcome.gold)


@register_metric("confidence_weighted_acc", output_type="multiple_choice")
def confidence_weighted_acc(outcome: ChoiceOutcome, *, normalize: bool = True) -> float:
    """The probability of the most likely choice where it is correct, and 0 where it is not."""
    chances = probabilities(_scores(outcome, normalize))
    chosen = best(chances)
    return chances[chosen] if chosen in outcome.gold else 0.0


@register_metric("ternary_score", output_type="multiple_choice")
def ternary_score(
    outcome: ChoiceOutcome, *, correct: float = 1.0, wrong: float = 1.0, idk: int | str = -1, normalize: bool = True
) -> float:
    """`correct` for the gold choice, 0 for "I don't know" (by default the last choice), minus `wrong` otherwise."""
    _check("ternary_score", correct >= 0 and wrong >= 0, correct, wrong, "0 or more")
    chosen = best(_scores(outcome, normalize))
    if chosen in outcome.gold:
        return float(correct)
    return 0.0 if chosen == _idk_index(outcome, idk) else -float(wrong)


@register_metric("dcs", output_type="multiple_choice")
def dcs(
    outcome: ChoiceOutcome, *, correct: float = 1.0, wrong: float = 1.0, idk: int | str = -1, normalize: bool = True
) -> float:
    """The distributional correctness score: (correct·p(gold) − wrong·p(others)) · (1 − p(I don't know))."""
    _check("dcs", correct >= wrong >= 0, correct, wrong, "0 or more, with correct at least as large as wrong")
    chances = probabilities(_scores(outcome, normalize))
    unsure = _idk_index(outcome, idk)
    right = math.fsum(chances[index] for index in outcome.gold)
    doubt = 0.0 if unsure in outcome.gold else chances[unsure]
    wrong_chances = [chance for index, chance in enumerate(chances) if index not in outcome.gold and index != unsure]
    return (correct * right - wrong * math.fsum(wrong_chances)) * (1 - doubt)


def _idk_index(outcome: ChoiceOutcome, idk: int | str) -> int:
    """The choice that means "I don't know", by its index (negative from the end) or its text."""
    number = len(outcome.choices)
    if isinstance(idk, int) and -number <= idk < number:
        return idk % number
    normalized = str(idk).strip().casefold()
    for texts in (outcome.texts, outcome.choices):
        for index, text in enumerate(texts):
            if isinstance(idk, str) and text.strip().casefold() == normalized:
                return index
    shown = list(outcome.texts or outcome.choices)
    raise DataError(
        f"no choice {shorten(idk)} that means 'I don't know'", hint=f"the choices are {shorten(shown, 120)}"
    )


def _check(name: str, right: bool, correct: float, wrong: float, expected: str) -> None:
    if not right:
        message = f"correct is {correct} and wrong is {wrong}"
        raise ConfigError(message, where=f"metric_list: {name}", hint=f"give numbers of {expected}")
