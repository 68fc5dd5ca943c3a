"""Whether the answer to a problem of MATH is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiform.compat.eval_framework.metrics.aggregators.aggregators import PassAtK
from multiform.compat.eval_framework.metrics.completion.minerva_math_utils import (
    extract_answers,
    is_equiv_hendrycks,
    is_equiv_minerva,
)
from multiform.compat.eval_framework.metrics.completion.symbolic import REASON, reads_latex
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import Error, MetricResult

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion


class MathMinervaCompletion(BaseMetric["Completion"]):
    """Whether the first answer of a text is right, and whether any of those that it may mean is.

    `COT_STYLE` and `RELAXED` say how the text states its answer; see `extract_answers`.
    """

    NAME = "Math Minerva Completion"
    KEYS = ["Exact", "Exact Flex"]  # noqa: RUF012 - as metrics have it
    AGGREGATORS = (PassAtK(),)
    COT_STYLE: str = "minerva"
    RELAXED: bool = False

    def __init__(self, use_cot: bool = True, cot_style: str | None = None, relaxed: bool | None = None) -> None:
        self.use_cot = use_cot
        self.cot_style = self.COT_STYLE if cot_style is None else cot_style
        self.relaxed = self.RELAXED if relaxed is None else relaxed

    def unavailable(self) -> str | None:
        return None if reads_latex() else REASON

    def calculate(self, response: Completion) -> list[MetricResult]:
        gold, error = next(iter(response.ground_truth_list), None), response.error
        if error is None and not gold:
            error = Error(error_class="ValueError", message="there is no right answer", traceback="")
        values: list[float | None] = [None, None]
        if error is None:
            assert gold is not None
            raw = response.raw_completion or response.completion
            answers = extract_answers(raw, use_cot=self.use_cot, cot_style=self.cot_style, relaxed=self.relaxed)
            any_right = any(is_equiv_minerva(answer, gold) or is_equiv_hendrycks(answer, gold) for answer in answers)
            values = [float(is_equiv_minerva(answers[0], gold)), float(any_right)]
        return [
            MetricResult(metric_name=name, value=value, higher_is_better=True, error=error)
            for name, value in zip(self.NAMES, values, strict=True)
        ]


class MathMinervaCompletionRelaxed(MathMinervaCompletion):
    """The same where the text need not state its answer word by word."""

    NAME = "Math Minerva Completion Relaxed"
    RELAXED = True


class MathMinervaCompletionDE(MathMinervaCompletion):
    """The same where the answer is stated in German."""

    NAME = "Math Minerva Completion DE"
    COT_STYLE = "minerva_de"


class MathMinervaCompletionRelaxedDE(MathMinervaCompletionDE):
    """The same where the German text need not state its answer word by word."""

    NAME = "Math Minerva Completion Relaxed DE"
    RELAXED = True
