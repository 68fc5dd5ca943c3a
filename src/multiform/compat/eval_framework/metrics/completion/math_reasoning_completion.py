"""Whether an answer in LaTeX is the right expression, or at least spelled like it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from multiform.compat.eval_framework.metrics.completion.minerva_math_utils import MARKUP, UNITS, plain_latex
from multiform.compat.eval_framework.metrics.completion.symbolic import REASON, limited, parse, reads_latex
from multiform.formats.dialects.metric_classes import BaseMetric

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion, MetricResult

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
            with limited(_SECONDS):
                return parse(self.normalize_expression(truth))
        except Exception:  # noqa: BLE001 - a parser raises anything
            return truth


def _same_value(written: list[str], truths: list[Any]) -> bool:
    """Whether one side of what is written differs from a right answer by nothing."""
    try:
        sides = [_simplified(parse(side)) for side in written]
        right = [_simplified(truth) for truth in truths]
        return any(abs(_simplified(side - truth)) < _TOLERANCE for side in sides for truth in right)
    except Exception:  # noqa: BLE001 - equations and texts have no difference, and each says so in its own way
        return False


def _simplified(expression: Any) -> Any:
    import sympy  # type: ignore[import-untyped]

    try:
        with limited(_SECONDS):
            return sympy.simplify(sympy.factor(expression))
    except (sympy.SympifyError, TimeoutError, RecursionError):
        return sympy.S.NaN


def _same_text(written: str, right: str) -> bool:
    """Whether two texts are equal once the longer chain of equations has lost its first sides."""
    sides = min(written.count("="), right.count("=")) + 1
    return written.split("=")[-sides:] == right.split("=")[-sides:]
