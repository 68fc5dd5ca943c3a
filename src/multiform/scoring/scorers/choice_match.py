"""Reads which of the labelled choices a text settles on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import ReadingScorer, register_scorer

_STATED = r"answer\s*(?:is|was|would\s+be|:|=)\s*:?\s*(?:option|choice|letter)?\s*"
_SKIPPED = r"[\s*_`\"'“‘$\[(]*"


@register_scorer("choice_match")
class ChoiceMatch(ReadingScorer):
    """The label that the text names, or the label of the choice that it spells out."""

    def read(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        return read_choice(outcome.prediction, outcome.labels, outcome.choices, primed=bool(outcome.primed))


def read_choice(text: str, labels: Sequence[str], choices: Sequence[str], *, primed: bool = False) -> str | None:
    r"""The label that a text settles on, or None when that is not clear.

    A primed text goes on where the prompt ended ("The best answer is"), so what it says first counts;
    otherwise the last statement counts.

    >>> xs = (["A", "B", "C"], ["Berlin", "Paris", "Rome"])
    >>> read_choice(" B. Paris", *xs, primed=True), read_choice("(b)", *xs), read_choice("Paris.", *xs)
    ('B', 'B', 'B')
    >>> read_choice("A is wrong. I think the best answer is C", *xs), read_choice(r"\boxed{A}", *xs)
    ('C', 'A')
    >>> read_choice("A good question, who knows", *xs) is None
    True
    """
    label = _label_pattern(labels)
    if primed:
        first = _first_line(text)
        return (
            _leading(first, label, labels, loose=True)
            or _spelled(first, labels, choices)
            or _stated(text, label, labels)
        )
    return (
        _stated(text, label, labels)
        or _leading(text, label, labels, loose=False)
        or _boxed(text, labels, choices)
        or _spelled(text, labels, choices)
        or _only_marked(text, label, labels)
    )


def _label_pattern(labels: Sequence[str]) -> str:
    longest_first = sorted(labels, key=len, reverse=True)
    return "|".join(re.escape(label) for label in longest_first) or r"(?!)"


def _exact(found: str, labels: Sequence[str]) -> str | None:
    """The label as it was shown, whatever the case in which it was written."""
    return next((label for label in labels if label.casefold() == found.casefold()), None)


def _stated(text: str, label: str, labels: Sequence[str]) -> str | None:
    """The label in the last "the answer is X"; a bare lower-case "a" is an article, not a label."""
    found = re.findall(rf"(?i:{_STATED}){_SKIPPED}((?:{label})(?!\w)|(?i:{label})(?=[).\]*]))", text)
    return _exact(found[-1], labels) if found else None


def _leading(text: str, label: str, labels: Sequence[str], *, loose: bool) -> str | None:
    """The label at the very beginning; not loosely, only where punctuation or the end follows it."""
    ahead = r"(?!\w)" if loose else r"(?=\s*(?:[).\]:,;*]|$|\n))"
    match = re.match(rf"{_SKIPPED}(?:({label}){ahead}|((?i:{label}))(?=[).\]:*]))", text)
    return _exact(match[1] or match[2], labels) if match else None


def _boxed(text: str, labels: Sequence[str], choices: Sequence[str]) -> str | None:
    found = re.findall(r"\\boxed\{(?:\\text\{)?([^{}]*)\}?\}", text)
    if not found:
        return None
    inner = found[-1].strip().strip("().")
    return _exact(inner, labels) or _spelled(inner, labels, choices)


def _spelled(text: str, labels: Sequence[str], choices: Sequence[str]) -> str | None:
    """The label of the one choice whose text is there; of one inside another, the longer counts."""
    plain = _plain(text)
    texts = [_plain(choice) for choice in choices]
    present = [i for i, choice in enumerate(texts) if choice and re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", plain)]
    outer = [i for i in present if not any(i != j and texts[i] in texts[j] for j in present)]
    return labels[outer[0]] if len(outer) == 1 and len(labels) == len(choices) else None


def _only_marked(text: str, label: str, labels: Sequence[str]) -> str | None:
    """The only label that stands somewhere in brackets or with its own punctuation."""
    found = set(re.findall(rf"(?:[(\[*]({label})[)\]*])|(?:(?:^|\n)({label})[.):])", text))
    names = {one or other for one, other in found}
    return _exact(names.pop(), labels) if len(names) == 1 else None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s.%-]", " ", text).casefold().split()).strip(" .")
