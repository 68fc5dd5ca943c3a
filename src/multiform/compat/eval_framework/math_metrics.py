"""Metrics of answers to mathematical problems, and how several attempts at one become one value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from multiform.compat.eval_framework.math_answers import (
    MARKUP,
    REASON,
    UNITS,
    extract_answers,
    is_equiv_hendrycks,
    is_equiv_minerva,
    limit_time,
    parse_latex,
    plain_latex,
    reads_latex,
)
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import Error, MetricResult

if TYPE_CHECKING:
    import pandas as pd

    from multiform.formats.dialects.samples import Completion, MetricResult


class Aggregator(Protocol):
    """Makes one row of all rows that share the identifying columns."""

    name: str

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame: ...


def closed_form_passatk(n: int, c: int, k: int) -> float:
    """The chance that one of k attempts is right, where c of n were; with fewer than k, whether any was."""
    if n < k:
        return float(c > 0)
    return 1 - math.comb(int(n - c), k) / math.comb(int(n), k)


class PassAtK:
    """The chance that one of k attempts is right."""

    def __init__(self, k: int = 1) -> None:
        self.k = k
        self.name = f"Pass@{k}"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return _aggregate(response_df, identifier_columns, lambda values: closed_form_passatk(*_count(values), self.k))


class IdentifierMean:
    """The mean of all attempts."""

    name = "IdentifierMean"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return _aggregate(response_df, identifier_columns, "mean")


class Identity:
    """Every attempt by itself."""

    name = "Identity"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return response_df


def _aggregate(rows: pd.DataFrame, columns: list[str], of_values: str | Callable[[Any], float]) -> pd.DataFrame:
    others: dict[str, Any] = {name: "first" for name in rows.columns if name not in (*columns, "value")}
    return rows.groupby(columns).agg({"value": of_values, **others}).reset_index()


def _count(values: Any) -> tuple[int, int]:
    return int(values.count()), int(values.sum())


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


_SECONDS = 10
#: How close to 0 the difference of two equal expressions is.
_TOLERANCE = 1e-12
#: Patterns and what replaces them, in this order.
_REPLACED = {
    r"\ban\b(?!\w)": "",
    r"\ba\b(?!\w)": "",
    r"\.\$": "$",
    r"\\\$": "",
    r"\\ ": "",
    r"\s+": "",
    r"\\mbox": "text",
    r",\\text\{and\}": ",",
    r"\\text\{and\}": ",",
    r"\\text\{m\}": r"\\text{}",
}


class MathReasoningCompletion(BaseMetric["Completion"]):
    """Whether the difference to a right answer is 0, or the texts are equal but for formatting and units."""

    NAME = "Math Reasoning Completion (symbolic)"

    def unavailable(self) -> str | None:
        return None if reads_latex() else REASON

    def calculate(self, response: Completion) -> list[MetricResult]:
        truths = [truth for truth in response.ground_truth_list if truth is not None]
        written = self.normalize_expression(response.completion)
        if _same_value(written.split("="), [self._expression(truth) for truth in truths]):
            return self.result(1.0, error=response.error)
        same = any(_same_text(written, self.normalize_expression(truth)) for truth in truths)
        return self.result(float(same), error=response.error)

    def normalize_expression(self, final_answer: str) -> str:
        r"""An answer without units at its end and without formatting.

        >>> MathReasoningCompletion().normalize_expression(r"\boxed{1,000} km")
        '1000'
        """
        for pattern, after in _REPLACED.items():
            final_answer = re.sub(pattern, after, final_answer)
        for unit in UNITS:
            final_answer = re.sub(rf"(.*?)\s*({re.escape(unit)})$", r"\1", final_answer)
        for markup in MARKUP:
            final_answer = final_answer.replace(markup, "")
        final_answer = plain_latex(final_answer)
        grouped = re.fullmatch(r"\d{1,3}(,\d{3})*", final_answer)
        return final_answer.replace(",", "") if grouped else final_answer

    def _expression(self, truth: str) -> Any:
        """The expression that a right answer is; the text where it is none."""
        try:
            with limit_time(_SECONDS):
                return parse_latex(self.normalize_expression(truth))
        except Exception:  # noqa: BLE001 - a parser raises anything
            return truth


def _same_value(written: list[str], truths: list[Any]) -> bool:
    """Whether one side of what is written differs from a right answer by nothing."""
    try:
        sides = [_simplify(parse_latex(side)) for side in written]
        right = [_simplify(truth) for truth in truths]
        return any(abs(_simplify(side - truth)) < _TOLERANCE for side in sides for truth in right)
    except Exception:  # noqa: BLE001 - equations and texts have no difference, and each says so in its own way
        return False


def _simplify(expression: Any) -> Any:
    import sympy  # type: ignore[import-untyped]

    try:
        with limit_time(_SECONDS):
            return sympy.simplify(sympy.factor(expression))
    except (sympy.SympifyError, TimeoutError, RecursionError):
        return sympy.S.NaN


def _same_text(written: str, right: str) -> bool:
    """Whether two texts are equal once the longer chain of equations has lost its first sides."""
    sides = min(written.count("="), right.count("=")) + 1
    return written.split("=")[-sides:] == right.split("=")[-sides:]
