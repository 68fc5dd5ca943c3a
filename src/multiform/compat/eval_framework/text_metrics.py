"""Metrics of what a model wrote: equality, F1 and ROUGE of words, and DROP's scores of spans."""

from __future__ import annotations

import re
import string
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from multiform.compat.eval_framework.helpers import LogicError
from multiform.formats.dialects.metric_classes import AccuracyCompletion, BaseMetric, SingleValue
from multiform.formats.dialects.samples import BaseMetricContext, extract_context_metric
from multiform.imports.libraries import normalize_answer, token_f1
from multiform.scoring.metrics.text import exact_match
from multiform.scoring.outcome import TextOutcome

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion, MetricResult


class AccuracyCompletionWithEvaluate(AccuracyCompletion):
    """The part of the right answers that the text equals, without what the patterns match in either."""

    def __init__(self, regexes_to_ignore: list[str], ignore_case: bool = False, ignore_punctuation: bool = False):
        self.regexes_to_ignore = regexes_to_ignore
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation

    def value(self, response: Completion) -> float:
        equal = [self._equals(response.completion, str(truth)) for truth in response.ground_truth_list]
        return sum(equal) / len(equal)

    def _equals(self, text: str, truth: str) -> float:
        outcome = TextOutcome(prediction=text, references=(truth,))
        options = {"ignore_case": self.ignore_case, "ignore_punctuation": self.ignore_punctuation}
        return float(exact_match(outcome, regexes_to_ignore=self.regexes_to_ignore, **options))


class AccuracyCompletionOLMES(AccuracyCompletionWithEvaluate):
    """Numbers as OLMES compares them: after ``####``, without commas, dollars and a full stop at the end."""

    def __init__(self) -> None:
        super().__init__(regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"])


class F1(SingleValue["Completion"]):
    """F1 of the words in lower case, of the right answer that it is highest for."""

    NAME = "F1"

    def normalize(self, text: str) -> str:
        return text.lower()

    def tokenize(self, text: str) -> list[str]:
        return self.normalize(text).split()

    def value(self, response: Completion) -> float:
        written = self.tokenize(response.completion)
        truths = [self.tokenize(truth) for truth in response.ground_truth_list if truth is not None]
        return max((calculate_f1(truth, written) for truth in truths), default=0.0)


class F1SquadNormalized(F1):
    """F1 of the words as SQuAD has them: without punctuation and articles."""

    NAME = "F1 SQuAD Normalized"

    def normalize(self, text: str) -> str:
        return normalize_answer(text)


def calculate_f1(ref_tokens: Sequence[Any], hyp_tokens: Sequence[Any]) -> float:
    """F1 of the tokens that two lists share; 1 where both are empty."""
    return token_f1(ref_tokens, hyp_tokens)


class _Rouge(SingleValue["Completion"]):
    """0 for an empty text, otherwise what the class makes of the words and of all right answers."""

    def value(self, response: Completion) -> float:
        if response.completion == "":
            return 0.0
        truths = [truth for truth in response.ground_truth_list if truth is not None]
        if len(truths) < len(response.ground_truth_list):
            raise LogicError(f"{self.NAME} needs a right answer, and there is none")
        return self.best(response.completion.split(), [truth.split() for truth in truths])

    @abstractmethod
    def best(self, written: list[str], truths: list[list[str]]) -> float:
        """The score that the best-matching right answers give."""


class _WordMatch(_Rouge):
    """The highest score of all right answers."""

    def best(self, written: list[str], truths: list[list[str]]) -> float:
        return max(self.score(written, truth) for truth in truths)

    @abstractmethod
    def score(self, written: list[str], truth: list[str]) -> float:
        """How well the written words match the true ones."""


class ROUGE_1(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of single words."""

    NAME = "ROUGE-1"

    def score(self, written: list[str], truth: list[str]) -> float:
        return calculate_f1(truth, written)


class ROUGE_2(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of pairs of words."""

    NAME = "ROUGE-2"

    def score(self, written: list[str], truth: list[str]) -> float:
        return calculate_f1(list(pairwise(truth)), list(pairwise(written)))


class ROUGE_L(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of the longest common subsequence of words."""

    NAME = "ROUGE-L"

    def score(self, written: list[str], truth: list[str]) -> float:
        lengths = [0] * (len(truth) + 1)
        for word in written:
            before = 0
            for index, right in enumerate(truth, start=1):
                here = lengths[index]
                lengths[index] = before + 1 if word == right else max(here, lengths[index - 1])
                before = here
        return 2 * lengths[-1] / (len(written) + len(truth)) if lengths[-1] else 0.0


class ROUGE_GEOMETRIC_MEAN(_Rouge):  # noqa: N801 - eval-framework's name
    """The geometric mean of the three."""

    NAME = "ROUGE-Geometric-Mean"

    def best(self, written: list[str], truths: list[list[str]]) -> float:
        return float(
            (ROUGE_1().best(written, truths) * ROUGE_2().best(written, truths) * ROUGE_L().best(written, truths))
            ** (1 / 3)
        )


class DropMetricContext(BaseMetricContext):
    """The right answers, each a list of spans."""

    answer_tuples: list[list[str]]


class DropF1ExactMatch(BaseMetric["Completion"]):
    """F1 and exact match of the spans between commas, of the right answer that each is highest for."""

    NAME = "Drop F1"
    KEYS = ["f1", "exact_match"]  # noqa: RUF012 - as metrics have it

    def calculate(self, response: Completion) -> list[MetricResult]:
        from multiform.formats.dialects.samples import MetricResult

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


def _scores(written: Sequence[str], right: Sequence[str]) -> tuple[float, float]:
    """F1 and exact match of two lists of spans."""
    spans, truths = [_normalize_span(span) for span in written], [_normalize_span(span) for span in right]
    exact = set(spans) == set(truths) and len(spans) == len(truths)
    return _aligned_f1([set(s.split()) for s in spans], [set(t.split()) for t in truths]), float(exact)


def _aligned_f1(written: list[set[str]], right: list[set[str]]) -> float:
    """The mean F1 of the best pairs of spans; a span without a partner counts as 0."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    scores = np.array([[_bag_f1(span, truth) for span in written] for truth in right])
    rows, columns = linear_sum_assignment(-scores)
    return round(float(scores[rows, columns].sum()) / max(len(written), len(right)), 2)


def _bag_f1(written: set[str], right: set[str]) -> float:
    """F1 of the words of two spans; 0 where the right one has numbers and none of them is written."""
    numbers = {word for word in right if _is_number(word)}
    if numbers and not numbers & written:
        return 0.0
    shared = len(written & right)
    precision = shared / len(written) if written else 1.0
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
