"""The lenient extractor."""

from __future__ import annotations

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
