"""Patterns for the parts of prompts in many languages: the question, the choices, the answer, the description."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from multiform.fields import ComputedField, Doc, shown
from multiform.formats.localization import Part, recognised_words

#: The labels of choices, each kind in its order.
ALPHABETS: tuple[Sequence[str], ...] = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "abcdefghijklmnopqrstuvwxyz",
    tuple(str(number) for number in range(1, 31)),
    "أبجدهوزحطي",
    "АБВГДЕЖЗИК",
    "абвгдежзик",
    "ΑΒΓΔΕΖΗΘ",
    "αβγδεζηθ",
    "কখগঘঙচ",
    "①②③④⑤⑥⑦⑧⑨⑩",
    ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"),
)
_COLON = r"[ \t]*[:：]"
_HASHES = r"(?:[#*]+[ \t]*)?"


def _any(*parts: Part) -> str:
    words = [word for part in parts for word in recognised_words(part)]
    return "(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + ")"


def _label(part: Part) -> str:
    """A word and a colon, perhaps as a heading or in bold."""
    return rf"{_HASHES}{_any(part)}\**{_COLON}\**"


#: The beginning of a line that names the question; the line break stays.
QUESTION_LABEL = re.compile(rf"(?:^|(?<=\n))[ \t]*{_label('question')}[ \t]*\n?[ \t]*", re.IGNORECASE)
#: A text that is nothing but such a label.
ONLY_QUESTION_LABEL = re.compile(rf"\s*{_label('question')}\s*", re.IGNORECASE)
#: A passage's label at the very beginning.
PASSAGE_LABEL = re.compile(rf"\s*{_label('passage')}\s*", re.IGNORECASE)
#: The end of a text that asks for an answer, on a line of its own.
ANSWER_CUE = re.compile(rf"(?:^|\n)[ \t]*{_HASHES}{_any('answer')}\**[ \t]*[:：]?\**\s*$", re.IGNORECASE)
#: A text that asks for an answer, whatever line it is on.
ONLY_ANSWER_CUE = re.compile(rf"\A\s*{_label('answer')}\s*\Z", re.IGNORECASE)
#: The beginning of a line that speaks for the answer.
ANSWER_LINE = re.compile(rf"(?:^|\n)[ \t]*{_label('answer')}", re.IGNORECASE)
#: The end of a text that announces choices.
CHOICES_HEADER = re.compile(rf"(?:^|\n)[ \t]*{_HASHES}{_any('choices')}\**{_COLON}?\**\s*$", re.IGNORECASE)
#: A text that speaks of answering or choosing.
ASKS_TO_CHOOSE = re.compile(rf"(?<!\w){_any('choosing')}(?!\w)", re.IGNORECASE)
#: A text that tells how to choose, whatever is asked.
TELLS_TO_CHOOSE = re.compile(
    r"multiple[- ]choice|candidate answers|(?:correct|best|right) (?:option|answer|choice|letter)", re.IGNORECASE
)
#: A last line that is a label, such as "Sentiment:".
ENDS_AS_LABEL = re.compile(r"(?:^|\n|\\)[ \t]*(?P<label>[^\W\d_]+(?:[ \t]+[^\W\d_]+){0,3})[ \t]*[:：]\s*$")
#: The end of a sentence that leaves the answer open.
OPEN_SENTENCE = re.compile(rf"(?<!\w){_any('answer', 'choosing')}(?!\w)[^\n]*[:：]\s*$", re.IGNORECASE)

_MARK = re.compile(
    r"(?P<before>(?:^|.*\s))[\[(]?(?P<label>\w{1,4}|[①-⑩])(?P<close>[\])]?[.:)：．、]?)[ \t]*$",
    re.IGNORECASE | re.DOTALL,
)

#: Stands for any dash or dot of a list without labels.
BULLET = "-"
_BULLET = re.compile(r"(?P<before>(?:^|.*\n))[ \t]*[-*•–][ \t]+$", re.DOTALL)
_OPTION_WORD = re.compile(rf"(?:^|(?<=\s)){_any('option')}[ \t]+$", re.IGNORECASE)


def option_mark(text: str) -> tuple[str, str] | None:
    r"""The label of a choice at the end of a text, and the text before it.

    >>> option_mark("Which?\nA. "), option_mark("\n(B) "), option_mark("Sentence 1: ")
    (('A', 'Which?\n'), ('B', '\n'), ('1', 'Sentence '))
    >>> option_mark("the answer ") is None, option_mark("?\nOption B: ")
    (True, ('B', '?\n'))
    """
    bullet = _BULLET.match(text)
    if bullet is not None:
        return BULLET, bullet["before"]
    mark = _MARK.match(text)
    if mark is None or not (mark["close"] or mark["label"] in "①②③④⑤⑥⑦⑧⑨⑩"):
        return None
    return mark["label"], _OPTION_WORD.sub("", mark["before"])


def follows(label: str, others: Sequence[str]) -> bool:
    """Whether a label is the next one after others of its kind, or the first of its kind if there are no others."""
    labels = [*others, label]
    return set(labels) == {BULLET} or any(list(alphabet[: len(labels)]) == labels for alphabet in ALPHABETS)


_MULTIPLE_CHOICE = re.compile("|".join(recognised_words("multiple_choice")), re.IGNORECASE)
#: Phrases that ask for the letter of a choice, in English and in any language.
_LETTER = re.compile(r"\bletters? (?:choice|of)\b|\b(?:correct|right|answer|choice|option) letters?\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"(?<!\w)\(X\)|\bA\s*,\s*B\b")
#: "Multiple choice" before a noun, which can be removed without leaving a gap.
_ADJECTIVE = re.compile(r"\bmultiple[-\s]choice[-\s]+(?=[^\W\d_])", re.IGNORECASE)
_ENUMERATED = re.compile(r"(?m)^\s*\(?A[.):].*\n+\s*\(?B[.):]")
_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?؟])(?=\s)|(?<=[。！？\n])")


def without_choices(description: str) -> str:
    """The description of a task without sentences about choices; unchanged where there are none.

    "Multiple choice questions" become "questions", and other sentences about choices or their letters are removed.
    Where a description speaks of choices in other words, such as in another language, all of it is removed.

    >>> without_choices("The following are multiple choice questions (with answers) about {{topic}}.")
    'The following are questions (with answers) about {{topic}}.'
    >>> without_choices('Think. Finish with "the answer is (X)" where X is the correct letter choice.')
    'Think.'
    >>> without_choices("Answer the question.")
    'Answer the question.'
    """
    if _ENUMERATED.search(description):
        return ""  # solved examples with choices
    if not about_choices(description):
        return description
    if "{%" in description or not (_ADJECTIVE.search(description) or _LETTER.search(description)):
        return ""
    values = _VALUE.findall(description)
    sentences = [_plain(sentence) for sentence in _SENTENCE_END.split(_VALUE.sub("\0", description))]
    rest = "".join(sentence for sentence in sentences if not about_choices(sentence)).strip()
    if not rest or len(values) != rest.count("\0"):
        return ""  # a removed sentence had one of the description's values
    for value in values:
        rest = rest.replace("\0", value, 1)
    return rest + description[len(description.rstrip()) :]


def description_without_choices(description: Callable[..., Any]) -> ComputedField:
    """A description that is a function, without sentences about choices."""
    return ComputedField(_without_choices_of, (description,), f"{shown(description)} without choices")


def _without_choices_of(doc: Doc, description: Any) -> str:
    return without_choices(str(description))


def about_choices(text: str) -> bool:
    """Whether a text speaks of multiple choice, or of the letters of choices."""
    return any(pattern.search(text) for pattern in (_MULTIPLE_CHOICE, _LETTER, _PLACEHOLDER))


def _plain(sentence: str) -> str:
    """The sentence without the words "multiple choice", still beginning with a capital letter if it did before."""
    plain = _ADJECTIVE.sub("", sentence)
    begins = sentence.lstrip()[:1]
    stripped = plain.lstrip()
    if begins.isupper() and stripped[:1].islower():
        return plain[: len(plain) - len(stripped)] + stripped[0].upper() + stripped[1:]
    return plain
