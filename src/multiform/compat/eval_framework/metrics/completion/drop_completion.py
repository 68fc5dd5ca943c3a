"""DROP's F1 and exact match of spans."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import BaseMetricContext, extract_context_metric

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion, MetricResult


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
    spans, truths = [_normalized(span) for span in written], [_normalized(span) for span in right]
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


def _normalized(span: str) -> str:
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
