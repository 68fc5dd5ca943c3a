"""Descriptions without sentences about choices, for formats that do not show choices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from multiform.fields import Doc
from multiform.formats.infer.words import MULTIPLE_CHOICE

_MULTIPLE_CHOICE = re.compile("|".join(MULTIPLE_CHOICE), re.IGNORECASE)
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


@dataclass(frozen=True, slots=True)
class DescriptionWithoutChoices:
    """A description that is a function, without sentences about choices."""

    description: Callable[..., Any]

    def __call__(self, doc: Doc) -> str:
        return without_choices(str(self.description(doc)))

    def __str__(self) -> str:
        return f"{getattr(self.description, '__qualname__', self.description)} without choices"


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
