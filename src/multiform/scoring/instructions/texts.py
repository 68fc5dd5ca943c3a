"""Sentences, words and languages of a text."""

from __future__ import annotations

import re

from multiform.errors import UsageError

#: Where a sentence may end: a mark, with closing quotes and brackets, before white space.
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s+|$)")
_ABBREVIATION = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|prof|st|sr|jr|vs|e\.g|i\.e|cf|fig|vol|inc|ltd|gen|col|rev|hon|approx|ph\.d)|"
    r"\.[a-z]|(?:^|[\s(])[A-Z])\.$"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text: they end at a mark, unless it ends an abbreviation, or a small letter follows
    a quote or an ellipsis.

    >>> split_sentences('Dr. Who left at 3.30 p.m. sharp. "Really?" he said. Yes!')
    ['Dr. Who left at 3.30 p.m. sharp.', '"Really?" he said.', 'Yes!']
    """
    sentences, start = [], 0
    for match in _END.finditer(text):
        following = text[match.end() :].lstrip()
        abbreviated = match[0] == "." and _ABBREVIATION.search(text[start : match.end()])
        goes_on = following[:1].islower() and match[0][-1] not in ".!?"
        if (abbreviated and following) or goes_on:
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def count_words(text: str) -> int:
    """The number of runs of letters, digits and underscores."""
    return len(re.findall(r"\w+", text))


def tokens(text: str) -> list[str]:
    """Words and marks, each by itself; words keep their hyphens and points inside, and lose the endings "'s" and "n't".

    >>> tokens("It's the U.S.-made well-known thing.")
    ['It', "'s", 'the', 'U.S.-made', 'well-known', 'thing', '.']
    """
    return re.findall(r"'(?:s|re|ve|ll|d|m)\b|n't\b|\w+?(?=n't\b)|\w+(?:[-.]+\w+)*|[^\w\s]", text)


def detect_language(text: str) -> str | None:
    """The code of the language that a text is in; None where it has no letters to tell it by."""
    try:
        import langdetect
    except ImportError as error:
        message = "rules about the language of a response need langdetect"
        raise UsageError(message, hint="pip install 'multiform[metrics]'") from error
    langdetect.DetectorFactory.seed = 0
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None


def is_english(text: str) -> bool:
    """Whether a text is in English, or in no language."""
    return detect_language(text) in ("en", None)
