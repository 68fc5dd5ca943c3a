"""The scorer `final_answer`: extracts the final answer from a chain of reasoning."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from multiform.deadline import TimeLimitError, within
from multiform.errors import UsageError
from multiform.labels import split_solution
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, compiled, register_scorer

_IS = r"[\s*_`]*+(?:is|was|would\s+be|:|=)[\s*_`:]*+"
_MARKERS = (
    # From the beginning of a line to the last marker in it, so that a correction counts.
    re.compile(rf"^.*final\s+answer{_IS}(.+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"^[#*_ ]*final\s+answer[*_: ]*\n+(.+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"####\s*(.+)"),
    re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}"),
    re.compile(rf"^.*answer{_IS}(.+)", re.IGNORECASE | re.MULTILINE),
)
#: A completion of one line and at most this many words is itself the answer.
_BARE_WORDS = 6
NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+")


@register_scorer("final_answer")
@dataclass(kw_only=True, eq=False)
class FinalAnswer(ReadingScorer):
    """The text after the last "the final answer is"; numbers are compared as numbers.

    `patterns` are regular expressions that are tried before the built-in ones; the answer is the group that
    matched, or the whole match where there are no groups.
    """

    patterns: Sequence[str] = ()

    def __post_init__(self) -> None:
        patterns = [self.patterns] if isinstance(self.patterns, str) else self.patterns
        self._markers = (*(compiled(pattern, "patterns") for pattern in patterns), *_MARKERS)

    def read(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        return read_final_answer(outcome.prediction, self._markers)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """Compare as numbers when the reference is one, as words otherwise."""
        answer = self.read(outcome) if outcome.prediction is not None else None
        references = tuple(canonical_answer(split_solution(reference)[1]) for reference in outcome.references)
        prediction = None if answer is None else _agreeing(answer, references)
        return replace(outcome, prediction=prediction, references=references)


@register_scorer("math_verify")
@dataclass(kw_only=True, eq=False)
class MathVerify(FinalAnswer):
    r"""The final answer as mathematics: ``\frac{1}{2}``, 1/2 and 0.5 are equal (needs the extra 'math').

    An answer in ``\boxed{}`` counts first. Answers that take more than a few seconds to compare count as wrong.
    """

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """A prediction that is equal to a reference becomes that reference."""
        found = super().reading(outcome)
        if outcome.prediction is None or found.prediction in found.references:
            return found
        references = [split_solution(reference)[1] for reference in outcome.references]
        answer, end = self.read(outcome), outcome.prediction[-_SEARCHED:]
        texts = [end] * ("\\boxed" in end) + [f"${answer}$"] * (answer is not None)
        for reference, canonical in zip(references, found.references, strict=True):
            if any(_is_equal(reference, text) for text in texts):
                return replace(found, prediction=canonical)
        return found


#: The last characters of a completion, among which math-verify looks for the answer.
_SEARCHED = 2000
_COMPARING = 5.0


def _is_equal(reference: str, text: str) -> bool:
    try:
        from math_verify import parse, verify
    except ImportError as error:
        hint = "run: pip install 'multiform[math]'"
        raise UsageError("the scorer 'math_verify' needs the package 'math-verify'", hint=hint) from error
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that the time limit is ours
    try:
        with within(_COMPARING):
            gold = parse(f"${reference}$", parsing_timeout=None)
            return bool(verify(gold, parse(text, parsing_timeout=None), timeout_seconds=None))
    except TimeLimitError:
        return False


def read_final_answer(text: str, markers: Sequence[re.Pattern[str]] = _MARKERS) -> str | None:
    r"""The final answer of a text, or None where it has none.

    >>> read_final_answer("2 + 2 = 4.\nThe final answer is 4.")
    '4'
    >>> read_final_answer(r"So \boxed{12} apples"), read_final_answer("Let me think.\nWho knows")
    ('12', None)
    >>> read_final_answer(" South America")  # after examples that are bare answers
    'South America'
    """
    for marker in markers:
        answers = [_trimmed(match[match.lastindex or 0]) for match in marker.finditer(text)]
        answers = [answer for answer in answers if answer and answer != "answer"]  # "[answer]" is the prompt's own
        if answers:
            return answers[-1]
    lines = text.strip().splitlines()
    bare = len(lines) == 1 and len(lines[0].split()) <= _BARE_WORDS and not re.search(r"\banswer\b", lines[0], re.I)
    return (_trimmed(lines[0]) or None) if bare else None


def _trimmed(answer: str) -> str:
    answer = answer.strip().strip("*_`$\"'“”‘’ ")
    answer = re.sub(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", answer)
    answer = re.sub(r"\\text\{([^{}]*)\}", r"\1", answer)
    if answer.startswith("[") and answer.rstrip(".").endswith("]"):
        answer = answer.rstrip(".")[1:-1]
    return answer.strip("*_`$\"'“”‘’ \n").rstrip("*_`$\"'“”‘’ .\n").replace("−", "-")


def _agreeing(answer: str, references: Sequence[str]) -> str:
    """The normalised answer; where one of its readings equals a reference, that reading."""
    candidates = [canonical_answer(answer), canonical_answer(re.split(r",(?!\d)|[;(]|\.\s", answer)[0])]
    if any(canonical_number(reference) is not None for reference in references):
        numbers = {canonical_answer(number) for number in NUMBER.findall(answer.rpartition("=")[2])}
        candidates += numbers if len(numbers) == 1 else ()  # of several, it is not clear which is meant
    return next((candidate for candidate in candidates if candidate in references), candidates[0])


def canonical_answer(text: str) -> str:
    """An answer in a form in which equal answers are equal: a number, or words without case and articles."""
    number = canonical_number(text)
    if number is not None:
        return number
    words = re.sub(r"[^\w\s%/.-]", " ", text.casefold()).split()
    telling = [word for word in words if word not in ("the", "a", "an")]
    return " ".join(telling or words).strip(" .") or text.strip()


def canonical_number(text: str) -> str | None:
    """A number in its shortest form, without currency and percent signs; None for other texts.

    >>> [canonical_number(text) for text in ("$1,250.50", "07", "42.0", "seven")]
    ['1250.5', '7', '42', None]
    """
    bare = re.sub(r"^([-+]?)[$€£¥]\s*", r"\1", text.strip().strip("$€£¥% ").rstrip("."))
    if "," in bare and not re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", bare):
        return None
    try:
        value = Decimal(bare.replace(",", ""))
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > 40:
        return None
    return format(value.normalize(), "f") if value else "0"
