"""The lenient extractor: what a completion answers if one makes an effort to read it.

It is not a scorer: a score by it would reward answers that were never given clearly. It tells a strict extractor
that fails on a completion from a model that does not know, and is applied if nothing was extracted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multiform.labels import UNSPACED, split_solution
from multiform.scoring.scorers.answers import NUMBER, canonical_answer, canonical_number

#: Before a lower-case word, "A" and "I" are words, not labels.
_NOT_A_WORD = r"(?!(?<=\b[AI])\s+[a-z])"
#: Completions that say that the model does not know, and go on without a guess.
_NO_ANSWER = re.compile(
    r"(?!.*\b(?:but|however|guess|probably|maybe|perhaps|think|believe)\b)\W*(?:sorry\W+)?(?:"
    r"(?:i\s+am\s+|i['’]m\s+)?(?:not\s+(?:sure|certain)|unsure|unable\s+to\s+(?:answer|say|tell|determine))"
    r"|(?:i\s+)?(?:do\s+not|don['’]t)\s+know|(?:i\s+have\s+)?no\s+idea|who\s+knows|no\s+answer|n/a"
    r"|i\s+(?:can\s?not|can['’]t)\s+(?:answer|say|tell|determine))\b.*",
    re.IGNORECASE | re.DOTALL,
)


def is_leniently_right(
    text: str, references: Sequence[str], *, labels: Sequence[str] = (), choices: Sequence[str] = ()
) -> bool:
    """Whether a completion can be read as one of the references.

    With choices, the last label or choice that the completion mentions counts. Without, the last number counts if
    a reference is one; otherwise a reference has to occur in the completion, in whole words.

    >>> cities = {"labels": ["A", "B", "C"], "choices": ["Berlin", "Paris", "Rome"]}
    >>> is_leniently_right("Berlin? No, I would go for B here", ["B"], **cities)
    True
    >>> is_leniently_right("A good guess would be Rome, or Paris", ["A"], **cities)
    False
    >>> is_leniently_right("There are 3 and 4, so 7 apples in all", ["7"]), is_leniently_right("It was Lyon", ["lyon"])
    (True, True)
    """
    if labels or choices:
        read = last_mentioned(text, labels, choices)
        return read is not None and read in {_choice(reference, labels, choices) for reference in references}
    answers = [canonical_answer(split_solution(reference)[1]) for reference in references]
    numbers = [canonical_number(number) for number in NUMBER.findall(text)]
    words = f" {canonical_answer(text)} "
    return any(
        (bool(numbers) and numbers[-1] == answer) if canonical_number(answer) is not None else f" {answer} " in words
        for answer in answers
    )


def names_an_answer(
    text: str, references: Sequence[str], *, labels: Sequence[str] = (), choices: Sequence[str] = ()
) -> bool:
    """Whether a text can be an answer at all, right or wrong.

    With choices, it has to mention one. Without, it has to have a number if all references are numbers; otherwise it
    is an answer unless it says that the model does not know.

    >>> names_an_answer("I am not sure", ["B"], labels=["A", "B"]), names_an_answer("(a)", ["B"], labels=["A", "B"])
    (False, True)
    >>> names_an_answer("I am not sure.", ["7"]), names_an_answer("I am not sure.", ["Lyon"])
    (False, False)
    >>> names_an_answer("It may be 12", ["7"]), names_an_answer("I am not sure, but I think Paris", ["Lyon"])
    (True, True)
    """
    if not text.strip():
        return False
    if labels or choices:
        named = {name.strip().casefold() for name in (*labels, *choices)}
        return text.strip(" ().:\n").casefold() in named or last_mentioned(text, labels, choices) is not None
    answers = [canonical_answer(split_solution(reference)[1]) for reference in references]
    if answers and all(canonical_number(answer) is not None for answer in answers):
        return bool(NUMBER.search(text))
    return not _NO_ANSWER.fullmatch(text)


def last_mentioned(text: str, labels: Sequence[str], choices: Sequence[str]) -> int | None:
    """The index of the choice that a text mentions last, by its label or its text; None if it mentions none.

    >>> last_mentioned("First A, then Paris.", ["A", "B"], ["Berlin", "Paris"])
    1
    """
    folded = _fold(text)
    places = [
        (match.start(), len(match[0]), index)
        for names, flags, after in ((labels, 0, _NOT_A_WORD), (choices, re.IGNORECASE, ""))
        for index, name in enumerate(names)
        if name.strip() and _fold(name.strip()) in folded  # most are not in it, and compiling a pattern takes long
        for match in re.finditer(
            rf"(?:(?<!\w)|(?<=[{UNSPACED}])){re.escape(name.strip())}(?:(?!\w)|(?=[{UNSPACED}])){after}", text, flags
        )
    ]
    # A choice inside a longer one that is mentioned there as well does not count.
    outer = [
        (start, size, index)
        for start, size, index in places
        if not any(s <= start and start + size <= s + z and z > size for s, z, _ in places)
    ]
    return max(outer)[2] if outer else None


def _fold(text: str) -> str:
    """The text without differences that `re.IGNORECASE` ignores: case folding, and the two Turkish letters i."""
    return text.casefold().replace("\u0131", "i").replace("i\u0307", "i")


def _choice(reference: str, labels: Sequence[str], choices: Sequence[str]) -> int | None:
    for names in (labels, choices):
        plain = [name.strip().casefold() for name in names]
        if reference.strip().casefold() in plain:
            return plain.index(reference.strip().casefold())
    return None
