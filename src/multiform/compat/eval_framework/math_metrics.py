"""Metrics of answers to mathematical problems: extracted, normalised, and compared by math-verify.

The normalisation is that of appendix D of Lewkowycz et al. (2022), "Solving quantitative reasoning problems with
language models".
"""

from __future__ import annotations

import importlib.util
import re

from multiform.compat.eval_framework.metrics import SingleValue
from multiform.compat.eval_framework.samples import Completion
from multiform.errors import UsageError
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.metric_results import Error, MetricResult
from multiform.scoring.scorers.answers import equal_expressions

#: What replaces what in an answer, in this order.
_REPLACEMENTS = {
    "an ": "",
    "a ": "",
    ".$": "$",
    r"\$": "",
    "\\ ": "",
    " ": "",
    "mbox": "text",
    r",\text{and}": ",",
    r"\text{and}": ",",
    r"\text{m}": r"\text{}",
}
_UNITS = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", r"\ldots", "sue"),
    *("points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges"),
    *("students", "childrentickets", "multiples"),
)
_MARKUP = (
    *(r"\text{s}", r"\text{.}", "\\text{\ns}", r"\text{}^2", r"\text{}^3", "\\text{\n}", r"\text{}", r"\mathrm{th}"),
    *(r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', r"\dots"),
)
#: Where a text states its answer: as the examples do it word by word, or nearly so.
_STATEMENT = r"Final Answer: The final answer is(.*?). I hope it is correct."
_ENDING = "I hope it is correct."
_LOOSE_STATEMENT = r"(?is)(?:the\s+)?final\s+answer\s*:\s*the\s+(?:final\s+)?answer\s+is\s*(.*)"
_LOOSE_ENDING = r"(?i)\.?\s*i\s+hope\s+it\s+is\s+correct\.?\s*$"


def extract_answers(
    raw_answer: str, use_cot: bool = True, cot_style: str = "minerva", relaxed: bool = False
) -> list[str]:
    """The answers that a text may mean, the most likely first: stated, boxed, between dollars, or the text itself."""
    if not use_cot or cot_style != "minerva":
        message = f"use_cot={use_cot} and cot_style={cot_style!r} are not provided"
        raise UsageError(message, where="extract_answers", hint="leave them out, or use eval-framework's")
    raw = str(raw_answer)
    dollars = [match.start() for match in re.finditer(r"\$", raw)]
    candidates = [_stated_answer(raw, relaxed), _boxed_text(raw)]
    answers = [answer for answer in map(normalize_final_answer, filter(None, candidates)) if answer]
    return answers or [normalize_final_answer(raw[dollars[-2] + 1 : dollars[-1]] if len(dollars) > 1 else raw)]


def _stated_answer(text: str, relaxed: bool) -> str | None:
    if not relaxed:
        match = re.search(_STATEMENT, text + _ENDING)
        return None if match is None else match.group(1).strip()
    match = re.search(_LOOSE_STATEMENT, text)
    return None if match is None else re.sub(_LOOSE_ENDING, "", match.group(1).strip()).strip()


def _boxed_text(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` or ``\boxed ...`` of a text.

    >>> _boxed_text(r"so \boxed{1} or \boxed{\frac{1}{2}}."), _boxed_text(r"$\boxed 5$"), _boxed_text("no box")
    ('\\frac{1}{2}', '5', None)
    """
    if "\\boxed " in text:
        return text.rsplit("\\boxed ", 1)[1].split("$", 1)[0]
    _, box, rest = text.rpartition("\\boxed{")
    depth = 1 if box else 0
    for index, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[:index] if box else None
    return None


def normalized_gold_from_solution(solution: str) -> str | None:
    """The normalised answer in the last box of a solution."""
    answer = _boxed_text(solution)
    return None if answer is None else normalize_final_answer(answer)


def normalize_final_answer(final_answer: str) -> str:
    r"""An answer without units, formatting and what stands before an equals sign.

    >>> normalize_final_answer(r"x = 1,234 \text{ dollars}"), normalize_final_answer(r"$\frac12$")
    ('1234', '\\frac{1}{2}')
    """
    answer = final_answer.split("=")[-1]
    for before, after in _REPLACEMENTS.items():
        answer = answer.replace(before, after)
    for expression in (*_UNITS, *_MARKUP):
        answer = answer.replace(expression, "")
    answer = _plain_latex(answer)
    digits = answer.replace(",", "")
    return digits if digits.isdigit() else answer


def _plain_latex(text: str) -> str:
    """LaTeX without what only formats it, and with the braces that fractions and roots may leave out."""
    text = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", text)
    for command in ("text", "textbf", "overline"):
        text = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    text = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", text)
    return re.sub(r"sqrt([^{])", r"sqrt{\1}", text).replace("$", "")


def is_equiv_minerva(x1: str, x2: str) -> bool:
    """Whether two answers are the same text or the same expression."""
    return x1 == x2 or equal_expressions(x2, f"${x1}$")


class _MathMetric(BaseMetric[Completion]):
    """A metric that compares expressions."""

    def unavailable(self) -> str | None:
        installed = importlib.util.find_spec("math_verify") is not None
        return None if installed else "it compares expressions with math-verify: pip install 'multiform[math]'"


class MathMinervaCompletion(_MathMetric):
    """Whether the first answer of a text is right, and whether any of those that it may mean is.

    `RELAXED` says whether the text may state its answer in other words; see `extract_answers`.
    """

    NAME = "Math Minerva Completion"
    KEYS = ["Exact", "Exact Flex"]  # noqa: RUF012 - as metrics have it
    RELAXED: bool = False

    def calculate(self, response: Completion) -> list[MetricResult]:
        gold, error = next(iter(response.ground_truth_list), None), response.error
        values: list[float | None] = [None, None]
        if error is None and not gold:
            error = Error(error_class="ValueError", message="there is no right answer", traceback="")
        elif error is None:
            raw = response.raw_completion or response.completion
            answers = extract_answers(raw, relaxed=self.RELAXED)
            right = [is_equiv_minerva(answer, str(gold)) for answer in answers]
            values = [float(right[0]), float(any(right))]
        return [
            MetricResult(metric_name=name, value=value, higher_is_better=True, error=error)
            for name, value in zip(self.NAMES, values, strict=True)
        ]


class MathMinervaCompletionRelaxed(MathMinervaCompletion):
    """The same where the text need not state its answer word by word."""

    NAME = "Math Minerva Completion Relaxed"
    RELAXED = True


class MathReasoningCompletion(_MathMetric, SingleValue[Completion]):
    """Whether the completion is equal to a right answer, as an expression or as a text without formatting and units."""

    NAME = "Math Reasoning Completion (symbolic)"

    def value(self, response: Completion) -> float:
        truths = [normalize_final_answer(truth) for truth in response.ground_truth_list if truth is not None]
        sides = [normalize_final_answer(side) for side in response.completion.split("=")]
        return float(any(is_equiv_minerva(side, truth) for side in sides for truth in truths))
