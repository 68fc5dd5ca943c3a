"""eval-framework's metric classes that registered metrics equal, and those that a run refuses.

All others are eval-framework's own code, from the files of its install or clone; their values are its own.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

from multiform.compat.eval_framework.samples import Completion, Loglikelihood
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.metric_results import MetricResult
from multiform.scoring.metrics.base import build_metric


def calculate(metric: BaseMetric[Any], response: Completion | Loglikelihood) -> list[MetricResult]:
    """The values of a response: by the registered metric that a class stands for, or by its `calculate`."""
    if not metric.is_registered():
        return metric.calculate(response)
    registered = build_metric(metric.specs[0])
    value = None if response.error is not None else float(registered(response.outcome()))
    return metric.result(value, error=response.error, better=registered.higher_is_better)


class ConfidenceWeightedAccuracy(BaseMetric[Loglikelihood]):
    """The probability of the most likely completion where it is correct, and 0 where it is not."""

    NAME = "Confidence-weighted Accuracy"
    specs = ({"metric": "confidence_weighted_acc"},)


class DistributionalCorrectnessScore(BaseMetric[Loglikelihood]):
    """Probability of correct minus wrong completions, scaled down by the probability of "I don't know"."""

    NAME = "Distributional Correctness Score"
    specs = ({"metric": "dcs"},)


class TernaryScore(BaseMetric[Loglikelihood]):
    """1 for a correct answer, 0 for "I don't know", -1 for a wrong answer."""

    NAME = "Ternary Score"
    specs = ({"metric": "ternary_score"},)


_LANGUAGES = ("en", "de", "es", "it", "fr", "nl", "pt", "fi")


@cache
def _language_detector() -> Any:
    import lingua  # type: ignore[import-not-found, unused-ignore]

    codes = [getattr(lingua.IsoCode639_1, code.upper()) for code in _LANGUAGES]
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()


class LanguageRawConsistencyChecker(BaseMetric[Completion]):
    """Whether all that the model wrote is in the language of the question."""

    NAME = "Language Consistency Raw"

    def unavailable(self) -> str | None:
        installed = importlib.util.find_spec("lingua") is not None
        return None if installed else "it needs the package lingua-language-detector"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return self.result(None, error=response.error)
        texts = (response.raw_completion, response.user_instruction)
        language, expected = (_language_detector().detect_language_of(text) for text in texts)
        return [] if language is expected is None else self.result(float(language == expected))


class CodeCompletionAssertion(BaseMetric[Any]):
    """Stands for the metrics that run the model's code; a run refuses it before the first request."""

    def calculate(self, response: Any) -> list[MetricResult]:
        raise NotImplementedError(self.unavailable())

    def unavailable(self) -> str:
        return "it runs the model's code in a container, and Multiform starts none"


class CodeExecutionPassAtOne(CodeCompletionAssertion):
    """The same by another name."""


class MultiPLECodeAssertion(CodeCompletionAssertion):
    """The same by another name."""
