"""eval-framework's metrics that its benchmarks use: by the registered metric that is the same, or calculated here."""

from __future__ import annotations

import importlib.util
import re
import string
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from multiform.compat.eval_framework.samples import (
    BaseMetricContext,
    Completion,
    Loglikelihood,
    extract_context_metric,
)
from multiform.errors import ConfigError, UsageError
from multiform.formats.dialects.metric_classes import BaseMetric, Response
from multiform.formats.dialects.metric_results import MetricResult
from multiform.imports.libraries import normalize_answer, token_f1
from multiform.scoring.metrics.base import build_metric
from multiform.scoring.metrics.text import exact_match
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.instructions import loose_texts
from multiform.scoring.scorers.rules import follows


def calculate(metric: BaseMetric[Any], response: Completion | Loglikelihood) -> list[MetricResult]:
    """The values of a response: by the registered metric that a class stands for, or by its `calculate`."""
    if not metric.is_registered():
        return metric.calculate(response)
    registered = build_metric(metric.specs[0])
    value = None if response.error is not None else float(registered(response.outcome()))
    return metric.result(value, error=response.error, better=registered.higher_is_better)


class SingleValue(BaseMetric[Response]):
    """A metric with one value for each response, and none if there was an error."""

    def calculate(self, response: Response) -> list[MetricResult]:
        error = getattr(response, "error", None)
        return self.result(None, error=error) if error is not None else self.result(self.value(response))

    @abstractmethod
    def value(self, response: Response) -> float:
        """The value of a response without an error."""


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


class PartialEvalAccuracy(BaseMetric[Loglikelihood]):
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


class AccuracyCompletionOLMES(SingleValue[Completion]):
    """Numbers as OLMES compares them: after ``####``, without commas, dollars and a full stop at the end."""

    NAME = "Accuracy Completion"

    def value(self, response: Completion) -> float:
        outcomes = [
            TextOutcome(prediction=response.completion, references=(str(truth),))
            for truth in response.ground_truth_list
        ]
        equal = [exact_match(outcome, regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"]) for outcome in outcomes]
        return float(sum(equal) / len(equal))


class F1(SingleValue[Completion]):
    """F1 of the words in lower case, of the right answer that it is highest for."""

    NAME = "F1"

    def normalize(self, text: str) -> str:
        return text.lower()

    def value(self, response: Completion) -> float:
        predicted = self.normalize(response.completion).split()
        truths = [self.normalize(truth).split() for truth in response.ground_truth_list if truth is not None]
        return max((token_f1(truth, predicted) for truth in truths), default=0.0)


class F1SquadNormalized(F1):
    """F1 of the words as SQuAD has them: without punctuation and articles."""

    NAME = "F1 SQuAD Normalized"

    def normalize(self, text: str) -> str:
        return normalize_answer(text)


class DropMetricContext(BaseMetricContext):
    """The right answers, each a list of spans."""

    answer_tuples: list[list[str]]


class DropF1ExactMatch(BaseMetric[Completion]):
    """F1 and exact match of the spans between commas, of the right answer that each is highest for."""

    NAME = "Drop F1"
    KEYS = ["f1", "exact_match"]  # noqa: RUF012 - as metrics have it

    def calculate(self, response: Completion) -> list[MetricResult]:
        values: dict[str, float | None] = dict.fromkeys(self.NAMES)
        if response.error is None:
            truths = extract_context_metric(response, DropMetricContext).answer_tuples
            spans = [span.strip() for span in response.completion.split(",") if span.strip()]
            scores = [_scores(spans or [""], truth) for truth in truths if truth and truth[0].strip()] or [(0.0, 0.0)]
            values = dict(zip(self.NAMES, map(max, zip(*scores, strict=True)), strict=True))
        return [
            MetricResult(metric_name=name, value=value, higher_is_better=True, error=response.error)
            for name, value in values.items()
        ]


def _scores(predicted: Sequence[str], right: Sequence[str]) -> tuple[float, float]:
    """F1 and exact match of two lists of spans."""
    spans, truths = [_normalize_span(span) for span in predicted], [_normalize_span(span) for span in right]
    exact = set(spans) == set(truths) and len(spans) == len(truths)
    return _aligned_f1([set(s.split()) for s in spans], [set(t.split()) for t in truths]), float(exact)


def _aligned_f1(predicted: list[set[str]], right: list[set[str]]) -> float:
    """The mean F1 of the best pairs of spans; a span without a partner counts as 0."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    scores = np.array([[_bag_f1(span, truth) for span in predicted] for truth in right])
    rows, columns = linear_sum_assignment(-scores)
    return round(float(scores[rows, columns].sum()) / max(len(predicted), len(right)), 2)


def _bag_f1(predicted: set[str], right: set[str]) -> float:
    """F1 of the words of two spans; 0 where the right one has numbers and none of them is predicted."""
    numbers = {word for word in right if _is_number(word)}
    if numbers and not numbers & predicted:
        return 0.0
    shared = len(predicted & right)
    precision = shared / len(predicted) if predicted else 1.0
    recall = shared / len(right) if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision or recall else 0.0


def _normalize_span(span: str) -> str:
    """The words of a span in lower case, numbers as floats, without punctuation and articles."""
    words = []
    for token in re.split(" |-", str(span).lower()):
        plain = token if _is_number(token) else token.translate(str.maketrans("", "", string.punctuation))
        number = str(float(plain)) if _is_number(plain) else plain
        words += re.sub(r"\b(a|an|the)\b", " ", number).split()
    return " ".join(words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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


class IFEvalMetricContext(BaseMetricContext):
    """The instructions of a prompt and their arguments."""

    key: int
    instruction_id_list: list[str]
    prompt: str
    additional_kwargs: list[dict[str, Any]]


class IFEvalMetric(BaseMetric[Completion]):
    """The part of prompts, and of instructions, that are followed; loosely where small changes of the text count."""

    NAME = "IFEval"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return [
                self._result(name, None, response) for name in ("prompt_level_strict_acc", "prompt_level_loose_acc")
            ]
        context = extract_context_metric(response, IFEvalMetricContext)
        text = response.completion
        texts = {"strict": [text], "loose": loose_texts(text)}
        rules = list(zip(context.instruction_id_list, context.additional_kwargs, strict=True))
        results: list[MetricResult] = []
        for level, versions in texts.items():
            followed = [
                any(follows(name, version, arguments, context.prompt) for version in versions)
                for name, arguments in rules
            ]
            results.append(self._result(f"prompt_level_{level}_acc", all(followed), response))
            results += [self._result(f"inst_level_{level}_acc", value, response) for value in followed]
        return results

    def _result(self, name: str, value: bool | None, response: Completion) -> MetricResult:
        number = None if value is None else float(value)
        return MetricResult(
            metric_name=f"{self.NAME}/{name}", value=number, higher_is_better=True, error=response.error
        )


class CodeMetric(BaseMetric[Any]):
    """Stands for the metrics that run the model's code; a run refuses it before the first request."""

    NAME = "code execution"

    def calculate(self, response: Any) -> NoReturn:
        raise UsageError(f"{self.NAME}: {self.unavailable()}", hint="score these answers with eval-framework")

    def unavailable(self) -> str:
        return "it runs the model's code in a container, and Multiform starts none"
