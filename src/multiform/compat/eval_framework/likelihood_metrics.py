"""eval-framework's metrics of the probabilities of completions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from multiform.errors import ConfigError
from multiform.formats.dialects.metric_classes import BaseMetric, SingleValue, highest, per_character

if TYPE_CHECKING:
    from multiform.compat.eval_framework.samples import Loglikelihood
    from multiform.formats.dialects.metric_results import MetricResult


class PartialEvalAccuracy(BaseMetric["Loglikelihood"]):
    """Whether, of two samples with the same completion, the correct one makes it more likely.

    The samples of a pair have the ids 2n and 2n + 1, and "True" or "False" as their ground truth.
    """

    NAME = "Partial Evaluation Accuracy"

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, bool]] = {}

    def calculate(self, response: Loglikelihood) -> list[MetricResult]:
        if response.error is not None:
            return self.result(None, error=response.error)
        loglikelihood, right = next(iter(response.loglikelihoods.values())), response.ground_truth == "True"
        pair = response.id // 2
        if pair not in self._waiting:
            self._waiting[pair] = (loglikelihood, right)
            return []
        other, other_right = self._waiting.pop(pair)
        if right == other_right:
            message = f"of the samples {2 * pair} and {2 * pair + 1}, {'both are' if right else 'none is'} right"
            raise ConfigError(message, where=self.NAME, hint="give one of the two the ground_truth 'True'")
        return self.result(float(right if loglikelihood > other else other_right))


class BaseLoglikelihoodMetric(BaseMetric["Loglikelihood"]):
    """Base class of metrics of the completions' probabilities, by default from log-likelihoods per character."""

    def __init__(self, *, len_normalised: bool = True) -> None:
        self.len_normalised = len_normalised

    def _normalise_text(self, text: str) -> str:
        return text.strip().lower()

    def _length_normalise_loglikelihoods(self, loglikelihoods: dict[str, float]) -> dict[str, float]:
        return per_character(loglikelihoods)

    def _softmax(self, log_probs: dict[str, float]) -> dict[str, float]:
        return _softmax(log_probs)

    def _compute_probabilities(self, loglikelihoods: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """The log-likelihoods, normalised by length if asked for, and their probabilities."""
        scores = per_character(loglikelihoods) if self.len_normalised else loglikelihoods
        return scores, _softmax(scores)

    def _gather_ground_truths(self, response: Loglikelihood) -> set[str]:
        return {self._normalise_text(text) for text in response.ground_truth_list}


class ConfidenceWeightedAccuracy(SingleValue["Loglikelihood"], BaseLoglikelihoodMetric):
    """The probability of the most likely completion where it is correct, and 0 where it is not."""

    NAME = "Confidence-weighted Accuracy"
    specs = ({"metric": "confidence_weighted_acc"},)

    def value(self, response: Loglikelihood) -> float:
        scores, probabilities = self._compute_probabilities(response.loglikelihoods)
        best = highest(scores)
        right = self._normalise_text(best) in self._gather_ground_truths(response)
        return probabilities[best] if right else 0.0


class _Abstaining(SingleValue["Loglikelihood"], BaseLoglikelihoodMetric):
    """A metric of completions of which the last means "I don't know"."""

    def __init__(self, *, lc: float = 1.0, lw: float = 1.0, len_normalised: bool = True) -> None:
        super().__init__(len_normalised=len_normalised)
        if lc < 0 or lw < 0:
            raise ValueError(f"lc={lc} and lw={lw} must not be negative")
        self._lc, self._lw = float(lc), float(lw)


class DistributionalCorrectnessScore(_Abstaining):
    """Probability of correct minus wrong completions, scaled down by the probability of "I don't know"."""

    NAME = "Distributional Correctness Score"
    specs = ({"metric": "dcs"},)

    def __init__(self, *, lc: float = 1.0, lw: float = 1.0, len_normalised: bool = True) -> None:
        super().__init__(lc=lc, lw=lw, len_normalised=len_normalised)
        if lc < lw:
            raise ValueError(f"lc={lc} must not be less than lw={lw}")

    def value(self, response: Loglikelihood) -> float:
        _, probabilities = self._compute_probabilities(response.loglikelihoods)
        truths, idk = self._gather_ground_truths(response), list(probabilities)[-1]
        right = sum(p for text, p in probabilities.items() if self._normalise_text(text) in truths)
        unsure = 0.0 if self._normalise_text(idk) in truths else probabilities[idk]
        wrong = sum(probabilities.values()) - right - unsure
        return (self._lc * right - self._lw * wrong) * (1 - unsure)


class TernaryScore(_Abstaining):
    """1 for a correct answer, 0 for "I don't know", -1 for a wrong answer."""

    NAME = "Ternary Score"
    specs = ({"metric": "ternary_score"},)

    def value(self, response: Loglikelihood) -> float:
        scores, _ = self._compute_probabilities(response.loglikelihoods)
        best = self._normalise_text(highest(scores))
        if best in self._gather_ground_truths(response):
            return self._lc
        return 0.0 if best == self._normalise_text(list(scores)[-1]) else -self._lw


class ProbabilityMass(SingleValue["Loglikelihood"]):
    """The probability of the correct completions among all."""

    NAME = "Probability Mass"
    specs = ({"metric": "probability_mass"},)

    def value(self, response: Loglikelihood) -> float:
        probabilities = _softmax(self._scores(response.loglikelihoods))
        return sum(p for text, p in probabilities.items() if text in response.ground_truth_list)

    def _scores(self, loglikelihoods: dict[str, float]) -> dict[str, float]:
        return loglikelihoods


class ProbabilityMassNorm(ProbabilityMass):
    """The probability of the correct completions among all, from log-likelihoods per character."""

    NAME = "Probability Mass Normalized"
    specs = ({"metric": "probability_mass_norm"},)

    def _scores(self, loglikelihoods: dict[str, float]) -> dict[str, float]:
        return per_character(loglikelihoods)


def _softmax(scores: Mapping[str, float]) -> dict[str, float]:
    most = max(scores.values(), default=0.0)
    weights = {text: math.exp(score - most) for text, score in scores.items()}
    total = math.fsum(weights.values())
    return {text: weight / total for text, weight in weights.items()}
