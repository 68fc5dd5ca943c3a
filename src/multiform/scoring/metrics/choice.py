"""Metrics of log-likelihoods: of ranked choices, of the confidence in a choice, and of a whole text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from multiform.errors import ConfigError, DataError, ModelError, excerpt
from multiform.formats.base import OutputType
from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome, Outcome


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
def acc_mutual_info(outcome: ChoiceOutcome, unconditional: str = "") -> float:
    """Whether the choice whose log-likelihood the prompt increases most is correct.

    The prompt is compared with none, or with the text `unconditional`, such as ``Answer:``.
    """
    pairs = zip(outcome.loglikelihoods, outcome.unconditional, strict=True)
    return float(best([with_prompt - without for with_prompt, without in pairs]) in outcome.gold)


@register_metric("r@2", output_type="multiple_choice")
def recall_at_2(outcome: ChoiceOutcome) -> float:
    """Whether one of the two most likely choices is correct."""
    return float(_rank(outcome) <= 2)


@register_metric("mrr", output_type="multiple_choice")
def reciprocal_rank(outcome: ChoiceOutcome) -> float:
    """One over the place of the first correct choice among all, the most likely first; the mean over documents."""
    return 1 / _rank(outcome)


def _rank(outcome: ChoiceOutcome) -> float:
    """The place of the first correct choice, from 1; infinite if none is correct."""
    order = sorted(range(len(outcome.loglikelihoods)), key=outcome.loglikelihoods.__getitem__, reverse=True)
    return min((place for place, index in enumerate(order, start=1) if index in outcome.gold), default=math.inf)


@register_metric("brier_score", output_type="multiple_choice", aggregation="brier_score", higher_is_better=False)
def brier_score(outcome: ChoiceOutcome) -> float:
    """The squared error of the probabilities."""
    chances = probabilities(outcome.loglikelihoods)
    right = set(outcome.gold[:1])
    return math.fsum((chance - (index in right)) ** 2 for index, chance in enumerate(chances))


def _class_metric(what: str) -> Callable[[ChoiceOutcome], tuple[int, int]]:
    def gold_and_pick(outcome: ChoiceOutcome) -> tuple[int, int]:
        # Without a gold choice it is -100, as in lm-eval.
        return outcome.gold[0] if outcome.gold else -100, best(outcome.loglikelihoods)

    gold_and_pick.__doc__ = f"{what} the gold choice and the prediction of each."
    return gold_and_pick


for _name, _aggregation, _what in (
    ("f1", "f1", "The F1 of class 1 over all documents, from"),
    ("mcc", "matthews_corrcoef", "Matthews' correlation over all documents, of"),
    ("macro_f1", "macro_f1", "The mean F1 of all classes over all documents, from"),
    ("balanced_accuracy", "balanced_accuracy", "The mean recall of all classes over all documents, from"),
):
    register_metric(_name, output_type="multiple_choice", aggregation=_aggregation)(_class_metric(_what))


def _scores(outcome: ChoiceOutcome, normalize: bool) -> list[float]:
    """The log-likelihoods, per character if `normalize` is true."""
    texts = outcome.scored or outcome.choices
    pairs = zip(outcome.loglikelihoods, texts, strict=True)
    return [loglikelihood / len(text) if normalize and text else loglikelihood for loglikelihood, text in pairs]


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


@register_metric("likelihood", output_type="multiple_choice")
@register_metric("probability_mass", output_type="multiple_choice")
def probability_mass(outcome: ChoiceOutcome) -> float:
    """The probability of the correct choices among all."""
    chances = probabilities(outcome.loglikelihoods)
    return math.fsum(chances[index] for index in outcome.gold)


@register_metric("probability_mass_norm", output_type="multiple_choice")
def probability_mass_norm(outcome: ChoiceOutcome) -> float:
    """The probability of the correct choices among all, from log-likelihoods per character."""
    chances = probabilities(_scores(outcome, True))
    return math.fsum(chances[index] for index in outcome.gold)


@register_metric("confidence_weighted_acc", output_type="multiple_choice")
def confidence_weighted_acc(outcome: ChoiceOutcome, *, normalize: bool = True) -> float:
    """The probability of the most likely choice if it is correct, and 0 if it is not."""
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
    unsure_chance = 0.0 if unsure in outcome.gold else chances[unsure]
    wrong_chances = [chance for index, chance in enumerate(chances) if index not in outcome.gold and index != unsure]
    return (correct * right - wrong * math.fsum(wrong_chances)) * (1 - unsure_chance)


def _idk_index(outcome: ChoiceOutcome, idk: int | str) -> int:
    """The choice that means "I don't know", by its index (negative from the end) or its text."""
    number = len(outcome.choices)
    if isinstance(idk, int) and -number <= idk < number:
        return idk % number
    for texts in (outcome.texts, outcome.choices):
        plain = [text.strip().casefold() for text in texts]
        if isinstance(idk, str) and idk.strip().casefold() in plain:
            return plain.index(idk.strip().casefold())
    hint = f"the choices are {excerpt(list(outcome.texts or outcome.choices), 120)}"
    raise DataError(f"no choice {excerpt(idk)} that means 'I don't know'", hint=hint)


def _check(name: str, right: bool, correct: float, wrong: float, expected: str) -> None:
    if not right:
        message = f"correct is {correct} and wrong is {wrong}"
        raise ConfigError(message, where=f"metric_list: {name}", hint=f"give numbers of {expected}")


_ANY: tuple[OutputType, ...] = ("loglikelihood", "loglikelihood_rolling")


@register_metric("perplexity", output_type="loglikelihood", aggregation="perplexity", higher_is_better=False)
def perplexity(outcome: LikelihoodOutcome) -> float:
    """The perplexity per document, from its log-likelihood."""
    return outcome.loglikelihood


@register_metric("word_perplexity", output_type=_ANY, aggregation="weighted_perplexity", higher_is_better=False)
def word_perplexity(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """The perplexity per word, from the log-likelihood and the number of words of each text."""
    return outcome.loglikelihood, outcome.words


@register_metric("byte_perplexity", output_type=_ANY, aggregation="weighted_perplexity", higher_is_better=False)
def byte_perplexity(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """The perplexity per byte, from the log-likelihood and the bytes of each text, its delimiter included."""
    return outcome.loglikelihood, outcome.bytes


@register_metric("bits_per_byte", output_type=_ANY, aggregation="bits_per_byte", higher_is_better=False)
def bits_per_byte(outcome: LikelihoodOutcome) -> tuple[float, int]:
    """Bits per byte over all texts, from the log-likelihood and the bytes of each, its delimiter included."""
    return outcome.loglikelihood, outcome.bytes


@register_metric("bypass", output_type=["multiple_choice", "generate_until", *_ANY], aggregation="bypass")
def bypass(outcome: Outcome) -> int:
    """No score, for runs that only collect responses."""
    return 999
