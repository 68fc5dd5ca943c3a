"""Metrics as classes, for stylers and Python tasks.

Each class has the registered metrics that compute the same (`specs`), and can calculate the values of one response
itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from multiform.errors import ConfigError, shorten

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion, Error, Loglikelihood, MetricResult

Response = TypeVar("Response")


class _Names:
    """The names of a metric's values: its NAME, or one for each of its KEYS."""

    def __get__(self, metric: object, cls: type[BaseMetric[Any]]) -> list[str]:
        return [cls.NAME] if cls.KEYS is None else [f"{cls.NAME}/{key}" for key in cls.KEYS]


class BaseMetric(ABC, Generic[Response]):
    """Base class of metrics; a subclass overrides `calculate`, or lists registered metrics as `specs`."""

    NAME: ClassVar[str] = ""
    #: Where a metric has several values: their names, which follow NAME and a slash.
    KEYS: ClassVar[list[str] | None] = None
    NAMES = _Names()
    #: How the values of several completions for one document are aggregated; by default the mean.
    AGGREGATORS: ClassVar[Sequence[Any]] = ()
    specs: ClassVar[Sequence[Mapping[str, Any]]] = ()
    fail_on_error: bool = True

    def calculate(self, response: Response) -> list[MetricResult]:
        """The values of one response."""
        raise NotImplementedError(f"write {type(self).__name__}.calculate")

    def unavailable(self) -> str | None:
        """Why the metric cannot be computed on this machine, or None; called before the model is loaded."""
        return None

    @classmethod
    def has_calculate(cls) -> bool:
        """Whether the class calculates its values itself."""
        return cls.calculate is not BaseMetric.calculate

    @classmethod
    def is_registered(cls) -> bool:
        """Whether registered metrics compute it: those of a built-in class, or the `specs` that a subclass sets."""
        return bool(cls.specs) and (cls.__module__ == __name__ or "specs" in cls.__dict__)

    def result(self, value: float | None, *, error: Error | None = None, better: bool = True) -> list[MetricResult]:
        """A single value under the metric's name."""
        from multiform.formats.dialects.samples import MetricResult

        return [MetricResult(metric_name=self.NAME, value=value, higher_is_better=better, error=error)]


class SingleValue(BaseMetric[Response]):
    """A metric with one value for each response, and none where there was an error."""

    def calculate(self, response: Response) -> list[MetricResult]:
        error = getattr(response, "error", None)
        return self.result(None, error=error) if error is not None else self.result(self.value(response))

    @abstractmethod
    def value(self, response: Response) -> float:
        """The value of a response without an error."""


class AccuracyLoglikelihood(SingleValue["Loglikelihood"]):
    """Whether the most likely completion is correct."""

    NAME = "Accuracy Loglikelihood"
    specs = ({"metric": "acc"},)

    def value(self, response: Loglikelihood) -> float:
        return float(_best(response.loglikelihoods) in response.ground_truth_list)


class AccuracyNormLoglikelihood(SingleValue["Loglikelihood"]):
    """Whether the completion that is most likely per character, its leading space included, is correct."""

    NAME = "Accuracy Normalized Loglikelihood"
    specs = ({"metric": "acc_norm_full"},)

    def value(self, response: Loglikelihood) -> float:
        return float(_best(_per_character(response.loglikelihoods)) in response.ground_truth_list)


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


class BitsPerByteLoglikelihood(BaseMetric["Loglikelihood"]):
    """Bits per byte of the correct completion, averaged over documents."""

    NAME = "BitsPerByte"
    specs = ({"metric": "bits_per_byte_mean"},)

    def calculate(self, response: Loglikelihood) -> list[MetricResult]:
        from multiform.formats.dialects.samples import Error

        if response.error is not None:
            return self.result(None, error=response.error, better=False)
        scored = [text for text in response.ground_truth_list if text in response.loglikelihoods]
        if not scored or not scored[0]:
            message = "the right answer is empty" if scored else "the right answer is none of the completions"
            error = Error(error_class="ValueError", message=message, traceback="")
            return self.result(None, error=error, better=False)
        bits = -response.loglikelihoods[scored[0]] / math.log(2)
        return self.result(bits / len(scored[0].encode("utf-8")), better=False)


class BaseLoglikelihoodMetric(BaseMetric["Loglikelihood"]):
    """Base class of metrics of the completions' probabilities, by default from log-likelihoods per character."""

    def __init__(self, *, len_normalised: bool = True) -> None:
        self.len_normalised = len_normalised

    def _normalise_text(self, text: str) -> str:
        return text.strip().lower()

    def _length_normalise_loglikelihoods(self, loglikelihoods: dict[str, float]) -> dict[str, float]:
        return _per_character(loglikelihoods)

    def _softmax(self, log_probs: dict[str, float]) -> dict[str, float]:
        return _softmax(log_probs)

    def _compute_probabilities(self, loglikelihoods: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """The log-likelihoods, normalised by length if asked for, and their probabilities."""
        scores = _per_character(loglikelihoods) if self.len_normalised else loglikelihoods
        return scores, _softmax(scores)

    def _gather_ground_truths(self, response: Loglikelihood) -> set[str]:
        return {self._normalise_text(text) for text in response.ground_truth_list}


class ConfidenceWeightedAccuracy(SingleValue["Loglikelihood"], BaseLoglikelihoodMetric):
    """The probability of the most likely completion where it is correct, and 0 where it is not."""

    NAME = "Confidence-weighted Accuracy"
    specs = ({"metric": "confidence_weighted_acc"},)

    def value(self, response: Loglikelihood) -> float:
        scores, probabilities = self._compute_probabilities(response.loglikelihoods)
        best = _best(scores)
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
        best = self._normalise_text(_best(scores))
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
        return _per_character(loglikelihoods)


class AccuracyCompletion(SingleValue["Completion"]):
    """Whether the generated text equals the ground truth."""

    NAME = "Accuracy Completion"
    specs = ({"metric": "exact_match"}, {"metric": "invalid"}, {"metric": "truncated"})

    def value(self, response: Completion) -> float:
        return float(response.completion in response.ground_truth_list)


def metric_specs(metrics: Sequence[Any], *, where: str) -> list[dict[str, Any]]:
    """The entries of a `metric_list` for metrics that are classes, names or mappings.

    >>> metric_specs([AccuracyLoglikelihood, "brier_score"], where="METRICS")
    [{'metric': 'acc'}, {'metric': 'brier_score'}]
    """
    specs: list[dict[str, Any]] = []
    for metric in metrics:
        if isinstance(metric, str):
            specs.append({"metric": metric})
        elif isinstance(metric, Mapping):
            specs.append(dict(metric))
        elif isinstance(metric, type) and issubclass(metric, BaseMetric) and metric.is_registered():
            specs += [dict(spec) for spec in metric.specs]
        elif isinstance(metric, type) and issubclass(metric, BaseMetric) and metric.has_calculate():
            message = f"{metric.__name__} calculates its values itself, which a format has no place for"
            raise ConfigError(
                message, where=where, hint="give METRICS to a class that overrides a hook, or name a metric"
            )
        else:
            message = f"expected a metric's name or class, got {shorten(metric)}"
            raise ConfigError(message, where=where, hint="see multiform ls metrics")
    return specs


def result_keys(measures: Sequence[type[BaseMetric[Any]]]) -> dict[tuple[type[BaseMetric[Any]], str], str]:
    """The names in the results for each value of metric classes: the registered metric, or the value's own name.

    >>> list(result_keys([AccuracyCompletion, PartialEvalAccuracy]).values())
    ['exact_match', 'Partial Evaluation Accuracy']
    """
    keys: dict[tuple[type[BaseMetric[Any]], str], str] = {}
    for cls in measures:
        for name in cls.NAMES:
            keys[cls, name] = str(cls.specs[0]["metric"]) if cls.is_registered() else name.replace(",", ";")
    shared = Counter(keys.values())
    return {at: f"{at[0].__name__}/{key}" if shared[key] > 1 else key for at, key in keys.items()}


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda text: scores[text])


def _per_character(loglikelihoods: Mapping[str, float]) -> dict[str, float]:
    return {text: value / (len(text) or 1) for text, value in loglikelihoods.items()}


def _softmax(scores: Mapping[str, float]) -> dict[str, float]:
    most = max(scores.values(), default=0.0)
    weights = {text: math.exp(score - most) for text, score in scores.items()}
    total = math.fsum(weights.values())
    return {text: weight / total for text, weight in weights.items()}
