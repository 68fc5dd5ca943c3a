"""The lenient extractor."""

from __future__ import annotations

import re
import sys

import pytest

from multiform.scoring.lenient import is_leniently_right, last_mentioned

LABELS, CITIES = ["A", "B", "C"], ["Paris", "New York", "York"]


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("I would say B", 1),
        ("A is tempting, yet C", 2),
        ("a new york minute", 1),  # the longer of two choices
        ("either York or paris", 0),  # the last one
        ("A good question", None),  # a word, no label
        ("I think so", None),
        ("no idea", None),
        ("", None),
    ],
)
def test_the_last_choice_that_is_mentioned_counts(text: str, index: int | None) -> None:
    assert last_mentioned(text, LABELS, CITIES) == index


def test_references_may_be_labels_or_texts() -> None:
    for reference in ("B", "New York", "new york "):
        assert is_leniently_right("well, B", [reference], labels=LABELS, choices=CITIES)
    assert not is_leniently_right("well, B", ["C"], labels=LABELS, choices=CITIES)
    assert not is_leniently_right("who knows", ["Boston"], labels=LABELS, choices=CITIES)


def test_of_numbers_the_last_one_counts() -> None:
    assert is_leniently_right("3 + 4 makes 7.0 in all", ["7"])
    assert is_leniently_right("so he pays $1,250", ["#### 1250"])
    assert not is_leniently_right("7 is what it is not, but 8", ["7"])
    assert not is_leniently_right("seven", ["7"])


def test_other_answers_have_to_occur_in_whole_words() -> None:
    assert is_leniently_right("It was Marie Curie, of course.", ["Marie Curie", "Curie"])
    assert not is_leniently_right("It was Mariecurie", ["Marie Curie"])


def test_a_choice_is_found_in_any_case_that_regular_expressions_take_for_the_same() -> None:
    cased = [chr(code) for code in range(sys.maxunicode) if chr(code).lower() != chr(code).upper()]
    by_fold: dict[str, list[str]] = {}
    for letter in (*cased, "\u0131", "\u0130", "i"):
        for fold in {letter.lower(), letter.upper(), letter.casefold()} & set(cased):
            by_fold.setdefault(fold, []).append(letter)
    pairs = {(a, b) for letters in by_fold.values() for a in letters for b in letters} | {("i", "\u0130")}
    for name, letter in sorted(pair for pair in pairs if pair[0].lower() != pair[1].lower()):  # the unusual ones
        if re.fullmatch(name, letter, re.IGNORECASE):
            assert last_mentioned(f"it is x{letter}x", [], [f"x{name}x"]) == 0, (name, letter)


def test_texts_of_choices_that_are_not_mentioned_cost_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "finditer", lambda pattern, *_: pytest.fail(f"searched for {pattern}"))
    assert last_mentioned("It is Lyon", LABELS, CITIES) is None
