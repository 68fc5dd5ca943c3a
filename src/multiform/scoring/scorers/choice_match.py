"""Scorers that extract the choice which a completion settles on: its label, or its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiform.errors import ConfigError, excerpt
from multiform.labels import UNSPACED, label_list, plain_characters
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, check_statements, register_scorer

_STATED = r"(?:answer|option|choice)[\s*_`]*+(?:is|was|would\s+be|:|=)[\s*_`:]*+(?:option|choice|letter)?"
_SKIPPED = r"[\s*_`\"'“‘$\[(]*"
_CLOSING = r"[).\]:*_`\"'”’$]"
#: "A" and "I" are words as well: before another word they are labels only if a reason or a judgement follows.
_NO_NOUN = r"(?!\s+(?!(?:and|as|because|but|due|for|is|not|or|since|which)\b)[a-z])"
_NO_WORD = rf"(?:(?<!\b[AI])|{_NO_NOUN})"
#: Choices that are common words count only at the beginning of an answer.
_PLAIN_WORDS = ("a", "i", "no")


@register_scorer("choice_match")
@dataclass(kw_only=True, eq=False)
class ChoiceMatch(ReadingScorer):
    """The label that the completion names, or the label of the choice whose text it has.

    The labels are those of the format. Without a format they are the scorer's `labels` (a list, "letters" or
    "numbers"), or letters if every reference is a letter. Without labels, the whole completion is compared.

    `statements` are texts with ``{answer}`` that state an answer in another language, such as "答えは{answer}です"; the
    last label in one of them counts before what is read otherwise.
    """

    labels: Any = None
    statements: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_statements(self.statements)
        if self.labels not in (None, "letters", "numbers") and not isinstance(self.labels, list | tuple):
            message = f"expected a list, 'letters' or 'numbers', got {excerpt(self.labels)}"
            raise ConfigError(message, where="scorer.kwargs.labels", hint="write labels: [A, B, C, D]")

    def read_answer(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        if not outcome.labels:
            return _plain(outcome.prediction) or None
        stated = find_in_statements(outcome.prediction, self.statements, outcome.labels, primed=bool(outcome.primed))
        return stated or read_choice(
            plain_characters(outcome.prediction) if self.statements else outcome.prediction,
            outcome.labels,
            outcome.choices,
            primed=bool(outcome.primed),
            finished=not outcome.truncated,
        )

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        if outcome.labels:
            return super().reading(outcome)
        labels = self._labels(outcome.references)
        known = [(_exact(ref.strip(), labels) or ref) if labels else _plain(ref) for ref in outcome.references]
        return super().reading(replace(outcome, labels=labels, references=tuple(known)))

    def _labels(self, references: Sequence[str]) -> tuple[str, ...]:
        """The labels of a document whose format shows none."""
        if isinstance(self.labels, list | tuple):
            return tuple(map(str, self.labels))
        lettered = all(re.fullmatch("[A-Za-z]", reference.strip()) for reference in references)
        spec = self.labels or ("letters" if lettered else None)
        return tuple(label_list(26, spec)) if spec else ()


def find_in_statements(
    text: str, statements: Sequence[str], labels: Sequence[str], *, primed: bool = False
) -> str | None:
    """The label in the last of the statements; a primed completion may begin in the middle of one.

    A label may be followed by letters of a script without blanks, as in "答えはBです".

    >>> find_in_statements("Aではない。答えはBです", ["答えは{answer}です"], ["A", "B"])
    'B'
    >>> find_in_statements("Die beste Antwort ist Blau", ["Die beste Antwort ist {answer}"], ["A", "B"]) is None
    True
    """
    if not statements or not labels:
        return None
    text = plain_characters(text)
    label = _label_pattern(labels)
    end = rf"{_vowel_end(statements)}(?:(?=[{UNSPACED}])|{_label_end(label)})"
    if primed:
        match = re.match(rf"[\s:：]*{_SKIPPED}[（「『«„]?({label}){end}", text)
        return _exact(match[1], labels) if match else None
    longest_first = sorted(statements, key=len, reverse=True)
    beginnings = (plain_characters(statement).partition("{answer}")[0].split() for statement in longest_first)
    before = "|".join(r"\s+".join(map(re.escape, words)) for words in beginnings)
    found = re.findall(rf"(?i:{before})[\s:：*_`]*{_SKIPPED}[（「『«„]?({label}){end}", text)
    return _exact(found[-1], labels) if found else None


def _vowel_end(statements: Sequence[str]) -> str:
    """What must not follow a vowel, which alone is a word in many languages: a word that does not end a statement.

    "A legjobb válasz: A kutya" names no label, and "Erantzun onena A da" does.
    """
    rests = [statement.partition("{answer}")[2].split() for statement in statements]
    ends = "|".join(re.escape(rest[0]) for rest in rests if rest) or r"(?!)"
    return rf"(?:(?<!\b[AEIOUY])|(?!\s+(?!(?:{ends})\b)[a-zà-ɏ]))"


def read_choice(
    text: str, labels: Sequence[str], choices: Sequence[str], *, primed: bool = False, finished: bool = True
) -> str | None:
    r"""The label that a completion settles on, or None if that is not clear.

    A primed completion continues a statement of the prompt ("The best answer is"), so its beginning counts;
    otherwise the last statement counts. In an unfinished completion, only statements count.

    >>> xs = (["A", "B", "C"], ["Berlin", "Paris", "Rome"])
    >>> read_choice(" B. Paris", *xs, primed=True), read_choice("(b)", *xs), read_choice("Paris.", *xs)
    ('B', 'B', 'B')
    >>> read_choice("A is wrong. I think the best answer is C", *xs), read_choice(r"\boxed{A}", *xs, primed=True)
    ('C', 'A')
    >>> read_choice("A good question, who knows", *xs) is None
    True
    """
    label = _label_pattern(labels)
    if primed:
        first = text.lstrip(": \t\n").partition("\n")[0]
        return (
            _find_leading(first, label, labels, loose=True)
            or _find_boxed(first, labels, choices, place=0)
            or _find_spelled(first, labels, choices)
            or _find_stated(text, label, labels)
            or _find_boxed(text, labels, choices)
        )
    # Whether the text begins by listing the choices, as the question does.
    lines = [rf"[\s(\[*]*{re.escape(label)}[).\]:*]" for label in labels[:2]]
    restates = len(lines) == 2 and re.match(rf"{lines[0]}.*\n{lines[1]}", text) is not None
    return (
        _find_stated(text, label, labels)
        or _find_boxed(text, labels, choices)
        or (None if restates else _find_leading(text, label, labels, loose=False))
        or (_find_spelled(text, labels, choices) if finished else None)
        or (_find_only_marked(text, label, labels) if finished else None)
    )


def _label_pattern(labels: Sequence[str]) -> str:
    """Any of the labels; only of single letters does the case matter, so that "a" is not a label.

    If it is one, it is an article all the same before a noun, as in "the answer is a planet".
    """
    longest_first = sorted(labels, key=len, reverse=True)
    patterns = [re.escape(label) if len(label) == 1 else f"(?i:{re.escape(label)})" for label in longest_first]
    return "|".join(part + _NO_NOUN if part == "a" else part for part in patterns) or r"(?!)"


def _label_end(label: str) -> str:
    """What must not follow a label: the rest of a word or number, or other labels as in "A, B or C"."""
    other = rf"[(\[]?(?:{label})[)\]]?(?!\w)"
    others = rf"(?:\s*+,\s*+{other})*\s*+,?\s*+(?:or\b|and\b|/|&)\s*{other}|\s*,\s*{other}\s*(?:[,.]|$)"
    return rf"(?![^\W_]|\.\d|['’]\w)(?![)\].*]*(?:{others}))"


def _exact(name: str, labels: Sequence[str]) -> str | None:
    """The label as it was shown, whatever the case in which it was written."""
    return next((label for label in labels if label.casefold() == name.casefold()), None)


def _find_stated(text: str, label: str, labels: Sequence[str]) -> str | None:
    """The label in the last "the answer is X"; a lower-case "a" before a word is an article, not a label."""
    statements = re.findall(
        rf"(?i:{_STATED}){_SKIPPED}((?:{label})|(?i:{label})(?={_CLOSING}|\s*(?m:$))){_label_end(label)}", text
    )
    return _exact(statements[-1], labels) if statements else None


def _find_leading(text: str, label: str, labels: Sequence[str], *, loose: bool) -> str | None:
    """The label at the very beginning; not loosely, only if punctuation, a judgement or the end follows it."""
    ahead = (
        _NO_WORD if loose else rf"(?=\s*(?:{_CLOSING}|[,;]|$|\n)|\s+-\s|\s+is\s+(?:the\s+)?(?:correct|right|best)\b)"
    )
    match = re.match(
        rf"{_SKIPPED}(?i:(?:option|choice)\s+)?(?:({label}){ahead}|((?i:{label}))(?={_CLOSING}|\s*$)){_label_end(label)}",
        text,
    )
    return _exact(match[1] or match[2], labels) if match else None


def _find_boxed(text: str, labels: Sequence[str], choices: Sequence[str], *, place: int = -1) -> str | None:
    r"""The label or choice in the last \boxed{...} of a text, or in the one at another place."""
    boxes = re.findall(r"\\boxed\{(?:\\[a-z]+\{)?([^{}]*)\}?\}", text)
    if not boxes:
        return None
    inner = boxes[place].strip().strip("().")
    return _exact(inner, labels) or _find_spelled(inner, labels, choices)


def _find_spelled(text: str, labels: Sequence[str], choices: Sequence[str]) -> str | None:
    """The label of the one choice whose text is there and not denied; inside a longer one it does not count."""
    plain = _plain(text)
    texts = [_plain(choice) for choice in choices]
    present = []
    for choice in sorted(filter(None, texts), key=len, reverse=True):
        before = r"(?:^|\banswer (?:is )?)" if choice in _PLAIN_WORDS else r"(?<!\w)(?<!\bnot )(?<!n t )"
        plain, times = re.subn(rf"{before}{re.escape(choice)}(?!\w)", " ", plain)
        present += [choice] * bool(times)
    unique = len(present) == 1 and texts.count(present[0]) == 1 and len(labels) == len(choices)
    return labels[texts.index(present[0])] if unique else None


def _find_only_marked(text: str, label: str, labels: Sequence[str]) -> str | None:
    """The only label that stands somewhere in brackets or with its own punctuation."""
    marked = set(re.findall(rf"(?:(?<!not )[(\[*]({label})[)\]*])|(?:(?:^|\n)({label})(?:[.):]|\s*(?m:$)))", text))
    names = {first or second for first, second in marked}
    return _exact(names.pop(), labels) if len(names) == 1 else None


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s.%-]", " ", text).casefold().split()).strip(" .")


@register_scorer("choice_text")
@dataclass(kw_only=True, eq=False)
class ChoiceText(ChoiceMatch):
    """The text of the choice that the completion names by its label or its text; references are texts.

    Without labels, the first line of the completion is compared.
    """

    def read_answer(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        first_line = self.canonical(outcome.prediction.partition("\n")[0])
        if not outcome.labels or first_line in map(self.canonical, outcome.choices):
            return first_line or None
        label = super().read_answer(outcome)
        return None if label is None else str(outcome.choices[list(outcome.labels).index(label)])

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        return super().reading(outcome) if outcome.labels else super(ChoiceMatch, self).reading(outcome)

    def canonical(self, text: str) -> str:
        return " ".join(text.split()).strip(" .").casefold()
