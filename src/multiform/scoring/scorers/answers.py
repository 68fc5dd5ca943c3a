"""Scorers that extract a short answer: the first word, a match of a regular expression, the final answer of a chain of
reasoning, or that answer as mathematics.
"""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.util import find_spec
from itertools import compress

from multiform.errors import ConfigError, UsageError, excerpt
from multiform.labels import plain_characters, split_solution
from multiform.limits import MAX_SECONDS, TimeLimitError, within
from multiform.scoring.filters import DEFAULT_PATTERN, INVALID, find_match
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, check_statements, compile_pattern, register_scorer

_IS = r"[\s*_`]*+(?:is|was|would\s+be|:|=)[\s*_`:]*+"
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_MARKERS = (
    # From the beginning of a line to the last marker in it, so that a correction counts.
    re.compile(rf"^.*final\s+answer{_IS}(.+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"^[#*_ ]*final\s+answer[*_: ]*\n+(.+)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"####\s*(.+)"),
    _BOXED,
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
    matched, or the whole match if there are no groups. `statements` are texts with ``{answer}`` that state an answer
    in another language, tried after them. `numbers` shows how the language writes a number: "1.234,5", "1 234,5" or
    "1,00,000.5"; an answer that is a number in this way is read so if it is not right as it stands.
    """

    patterns: Sequence[str] = ()
    statements: Sequence[str] = ()
    numbers: str = "1,234.5"

    def __post_init__(self) -> None:
        check_statements(self.statements)
        if self.numbers not in NUMBER_STYLES:
            message = f"expected one of {', '.join(NUMBER_STYLES)}, got {excerpt(self.numbers)}"
            raise ConfigError(message, where="scorer.kwargs.numbers", hint='write numbers: "1.234,5"')
        patterns = [self.patterns] if isinstance(self.patterns, str) else self.patterns
        stated = statement_markers(self.statements)
        self._markers = (*(compile_pattern(pattern, "patterns") for pattern in patterns), *stated, *_MARKERS)

    def read_answer(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        text = outcome.prediction
        return read_final_answer(plain_characters(text) if self.statements else text, self._markers)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """Compare as numbers when the reference is one, as words otherwise."""
        answer = self.read_answer(outcome) if outcome.prediction is not None else None
        references = tuple(canonical_answer(split_solution(reference)[1]) for reference in outcome.references)
        prediction = None if answer is None else _best_reading(answer, references)
        if answer is not None and self.statements and prediction not in references:
            prediction = _best_reading(local_number(answer, self.numbers), references)
        if outcome.prediction is not None and prediction not in references:
            equal = (self.equals(reference, answer, outcome.prediction) for reference in outcome.references)
            prediction = next(compress(references, equal), prediction)
        return replace(outcome, prediction=prediction, references=references)

    def equals(self, reference: str, answer: str | None, completion: str) -> bool:
        """Whether an answer that is written otherwise is equal to a reference."""
        return False


@register_scorer("open_answer")
@dataclass(kw_only=True, eq=False)
class OpenAnswer(FinalAnswer):
    """A short answer in the model's own words: its stated final answer, or its first line with words in it.

    It is right if it equals any reference, as words without case and articles, or as a number. A reference in LaTeX is
    also compared as mathematics, which needs the extra 'math'; without it, a warning says that it was not.
    """

    def read_answer(self, outcome: TextOutcome) -> str | None:
        text = outcome.prediction or ""
        lines = [line for line in text.splitlines() if any(letter.isalnum() for letter in line)]
        return super().read_answer(outcome) or (_trim(lines[0]) if lines else None)

    def equals(self, reference: str, answer: str | None, completion: str) -> bool:
        in_latex = "\\" in reference and answer is not None
        return in_latex and _is_installed() and equal_expressions(split_solution(reference)[1], f"${answer}$")


@cache
def _is_installed() -> bool:
    """Whether math-verify is there; warns once if it is not."""
    if find_spec("math_verify") is not None:
        return True
    logging.getLogger("multiform").warning(
        "references in LaTeX are compared as texts; to compare them as mathematics, run: pip install 'multiform[math]'"
    )
    return False


#: For each way of writing numbers: what groups digits, the pattern of a number with groups, and the decimal mark.
NUMBER_STYLES = {
    "1,234.5": ("[,]", r"\d{1,3}(?:,\d{3})+", "."),
    "1.234,5": ("[.]", r"\d{1,3}(?:\.\d{3})+", ","),
    "1 234,5": ("[ \u00a0\u202f]", r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+", ","),
    "1,00,000.5": ("[,]", r"\d{1,2}(?:,\d{2})*,\d{3}", "."),
}


def local_number(text: str, style: str) -> str:
    """A text whose numbers are written as in English, without groups.

    >>> local_number("1.250,5 Euro", "1.234,5"), local_number("1 250 руб.", "1 234,5")
    ('1250.5 Euro', '1250 руб.')
    >>> local_number("₹1,00,000", "1,00,000.5"), local_number("٣٬٥٠٠٫٥", "1,234.5"), local_number("2.5", "1.234,5")
    ('₹100000', '3500.5', '2.5')
    """
    text = plain_characters(text).replace("٬", "").replace("٫", ".")
    separator, grouped, mark = NUMBER_STYLES[style]

    def english(match: re.Match[str]) -> str:
        whole, _, decimals = match[0].partition(mark)
        return re.sub(separator, "", whole) + (f".{decimals}" if decimals else "")

    return re.sub(rf"(?<![\d.,])(?:{grouped}|\d+)(?:{re.escape(mark)}\d+)?(?![\d]|[.,]\d)", english, text)


def statement_markers(statements: Sequence[str]) -> list[re.Pattern[str]]:
    """A pattern for each statement: its answer is what follows, up to the rest of the statement or of the line."""
    markers = []
    for statement in sorted(statements, key=len, reverse=True):
        before, _, after = (
            r"\s*".join(map(re.escape, part.split())) for part in plain_characters(statement).partition("{answer}")
        )
        rest = rf"(?:{after}|[。।۔።။]|$)" if after else r"(?:[。।۔።။]|$)"
        pattern = rf"^.*{before}[\s*_`:：]*(.+?){rest}"
        markers.append(re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    return markers


@register_scorer("math_verify")
@dataclass(kw_only=True, eq=False)
class MathVerify(FinalAnswer):
    r"""The final answer as mathematics: ``\frac{1}{2}``, 1/2 and 0.5 are equal (needs the extra 'math').

    An answer in ``\boxed{}`` counts first. Answers that take more than a few seconds to compare count as wrong.
    """

    def equals(self, reference: str, answer: str | None, completion: str) -> bool:
        end = completion[-_SEARCHED:]
        texts = [end] * ("\\boxed" in end) + [f"${answer}$"] * (answer is not None)
        return any(equal_expressions(split_solution(reference)[1], text) for text in texts)


#: The last characters of a completion, among which math-verify looks for the answer.
_SEARCHED = 2000
_COMPARING = 5.0


def equal_expressions(reference: str, text: str) -> bool:
    """Whether an expression is found in a text, as math-verify compares them; False if that takes too long."""
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
    r"""The final answer of a text, or None if it has none.

    >>> read_final_answer("2 + 2 = 4.\nThe final answer is 4.")
    '4'
    >>> read_final_answer(r"So \boxed{12} apples"), read_final_answer("Let me think.\nWho knows")
    ('12', None)
    >>> read_final_answer(" South America")  # after examples that are bare answers
    'South America'
    """
    for marker in markers:
        answers = [_trim(match[match.lastindex or 0]) for match in marker.finditer(text)]
        answers = [answer for answer in answers if answer and answer != "answer"]  # "[answer]" is the prompt's own
        if answers:
            return answers[-1]
    lines = text.strip().splitlines()
    bare = len(lines) == 1 and len(lines[0].split()) <= _BARE_WORDS and not re.search(r"\banswer\b", lines[0], re.I)
    return (_trim(lines[0]) or None) if bare else None


def _trim(answer: str) -> str:
    answer = _BOXED.sub(r"\1", answer.strip().strip("*_`$\"'“”‘’ "))
    answer = re.sub(r"\\text\{([^{}]*)\}", r"\1", answer)
    if answer.startswith("[") and answer.rstrip(".").endswith("]"):
        answer = answer.rstrip(".")[1:-1]
    return answer.strip("*_`$\"'“”‘’ \n").rstrip("*_`$\"'“”‘’ .\n").replace("−", "-")


def _best_reading(answer: str, references: Sequence[str]) -> str:
    """The normalised answer; if one of its readings equals a reference, that reading."""
    candidates = [canonical_answer(answer), canonical_answer(re.split(r",(?!\d)|[;(]|\.\s", answer)[0])]
    if any(canonical_number(reference) is not None for reference in references):
        numbers = {canonical_answer(number) for number in NUMBER.findall(answer.rpartition("=")[2])}
        candidates += numbers if len(numbers) == 1 else ()  # of several, it is not clear which is meant
    return next((candidate for candidate in candidates if candidate in references), candidates[0])


def canonical_answer(text: str) -> str:
    """An answer in a form in which equal answers are equal: a number, or words without case and articles."""
    if (number := canonical_number(text)) is not None:
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


#: The characters around a word: all but letters, digits and the sign of a number.
_AROUND = re.compile(r"^(?:(?![+-]\.?\d)[\W_])+|[\W_]+$")


@register_scorer("first_token")
@dataclass(kw_only=True, eq=False)
class FirstToken(ReadingScorer):
    """The first word of the completion, without case and punctuation.

    If a reference has several words, as many words of the completion are compared.
    """

    def read_answer(self, outcome: TextOutcome) -> str | None:
        return next(iter(tokens(outcome.prediction)), None)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        """Compare the beginning of the text with each reference, token by token."""
        reference_tokens = [tokens(reference) for reference in outcome.references]
        predicted = tokens(outcome.prediction) if outcome.prediction is not None else []
        right = next((ref for ref in reference_tokens if ref and predicted[: len(ref)] == ref), predicted[:1])
        return replace(outcome, prediction=" ".join(right) or None, references=tuple(map(" ".join, reference_tokens)))


def tokens(text: str) -> list[str]:
    """The words of a text without case and the punctuation around them.

    >>> tokens("(b)"), tokens(" B. y"), tokens("**Yes**, -3.5 %")
    (['b'], ['b', 'y'], ['yes', '-3.5'])
    """
    bare = (_AROUND.sub("", word) for word in text.casefold().split())
    return [word for word in bare if word]


_PUNCTUATION = str.maketrans("", "", string.punctuation)


@register_scorer("regex")
@dataclass(kw_only=True, eq=False)
class Regex(ReadingScorer):
    """A match of a regular expression, compared without case and punctuation, and numbers as numbers.

    `regex_pattern` and `group_select` are those of the filter `regex`. If a task has filters but no pattern, the
    filtered response is compared. The pattern is also applied to references that match it, such as worked solutions.
    """

    regex_pattern: str | None = None
    group_select: int = 0

    def __post_init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        if self.regex_pattern is not None or not self.pipeline.steps:
            self._pattern = compile_pattern(self.regex_pattern or DEFAULT_PATTERN, "regex_pattern")

    def read_answer(self, outcome: TextOutcome) -> str | None:
        if outcome.prediction == INVALID:
            return None
        return self._find(outcome.prediction) if self._pattern else str(outcome.prediction)

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        known = tuple(self._find(reference) or reference for reference in outcome.references)
        return super().reading(replace(outcome, references=known))

    def canonical(self, text: str) -> str:
        return canonical_number(text) or " ".join(text.casefold().translate(_PUNCTUATION).split())

    def _find(self, text: str) -> str | None:
        if self._pattern is None:
            return None
        with within(MAX_SECONDS):
            return find_match(self._pattern, text, self.group_select) or None
