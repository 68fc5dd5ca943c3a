"""Every way in which datasets write down the right answer, and the labels of choices."""

from __future__ import annotations

import string
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.errors import DataError
from multiform.labels import gold_index, gold_label, gold_text, join_words, label_list, letters

XYZ = ["x", "y", "z"]
MANY = [f"choice {n}" for n in range(1, 31)]
REMEDY = 'make doc_to_target an index, e.g. "{{choices.index(answer)}}"'
HIDDEN = "where a dataset hides the answers of this split, name another one as test_split or validation_split"
OUT_OF_RANGE = 'if it counts from 1, write doc_to_target: "{{answer - 1}}", or set answer_base: 1'

RESOLVED = {
    "index": (2, XYZ, 2),
    "first index": (0, XYZ, 0),
    "upper-case letter": ("B", XYZ, 1),
    "lower-case letter": ("c", XYZ, 2),
    "letter with white space": (" B\n", XYZ, 1),
    "1-based digit": ("1", XYZ, 0),
    "last 1-based digit": ("3", XYZ, 2),
    "text of a choice": ("y", ["x", "y"], 1),
    "longer text of a choice": ("the moon", ["the sun", "the moon"], 1),
    "text with other white space around it": ("the moon ", ["the sun", " the moon"], 1),
    "text of a number": ("20", [10, 20], 1),
    "text that is also its own letter": ("B", ["A", "B"], 1),
    "text that is also its own digit": ("2", ["1", "2"], 1),
    "float": (1.0, XYZ, 1),
    "numpy integer": (np.int64(2), XYZ, 2),
    "numpy float": (np.float32(1.0), XYZ, 1),
    "numpy bool": (np.bool_(True), ["no", "yes"], 1),
    "numpy string": (np.str_("B"), XYZ, 1),
    "letter after Z": ("AA", MANY, 26),
    "lower-case letter after Z": ("ab", MANY, 27),
    "two-digit number": ("27", MANY, 26),
    "true among true and false": (True, ["True", "False"], 0),
    "false among true and false": (False, ["True", "False"], 1),
    "true among no and yes": (True, ["no", "yes"], 1),
    "false among three": (False, ["yes", "no", "maybe"], 1),
    "true among sentences": (True, ["Yes.", "No."], 0),
    "true among two plain choices": (True, ["entailment", "contradiction"], 1),
    "false among two plain choices": (False, ["entailment", "contradiction"], 0),
    "list of one": (["B"], XYZ, [1]),
    "list of several kinds": (["z", 0], XYZ, [0, 2]),
    "tuple": ((2, 1), XYZ, [1, 2]),
    "list that says the same twice": (["A", "x", 0], XYZ, [0]),
    "numpy array": (np.array([0, 2]), XYZ, [0, 2]),
    "single choice": ("A", ["x"], 0),
}


@pytest.mark.parametrize(("answer", "choices", "index"), RESOLVED.values(), ids=RESOLVED.keys())
def test_an_answer_resolves_to_the_index_of_its_choice(answer, choices, index):
    assert gold_index(answer, choices) == index


WITH_LABELS = {
    "number label": ("2", XYZ, "numbers", 1),
    "custom label": ("II", XYZ, ["I", "II", "III"], 1),
    "letter although the labels are numbers": ("C", XYZ, "numbers", 2),
    "letter although the labels are custom": ("B", XYZ, ["I", "II", "III"], 1),
    "text although the labels are custom": ("z", XYZ, ("I", "II", "III"), 2),
    "more labels than choices": ("II", ["x", "y"], ["I", "II", "III"], 1),
}


@pytest.mark.parametrize(("answer", "choices", "labels", "index"), WITH_LABELS.values(), ids=WITH_LABELS.keys())
def test_an_answer_may_be_one_of_the_labels_that_are_shown(answer, choices, labels, index):
    assert gold_index(answer, choices, labels) == index


UNRESOLVED = {
    "negative": (-1, XYZ, "the answer -1", "not between 0 and 2"),
    "out of range": (3, XYZ, "the answer 3", "not between 0 and 2"),
    "float out of range": (7.0, XYZ, "the answer 7", "not between 0 and 2"),
    "fraction": (1.5, XYZ, "the answer 1.5", "not an index, label or text"),
    "not a number": (float("nan"), XYZ, "the answer nan", "not an index, label or text"),
    "infinite": (float("inf"), XYZ, "the answer inf", "not an index, label or text"),
    "none": (None, XYZ, "the answer None", "not an index, label or text"),
    "mapping": ({"text": "x"}, XYZ, "the answer {'text': 'x'}", "not an index, label or text"),
    "bytes": (b"B", XYZ, "the answer b'B'", "not an index, label or text"),
    "letter out of range": ("D", XYZ, "the answer 'D'", "neither one of the choices nor a label"),
    "digit out of range": ("4", XYZ, "the answer '4'", "neither one of the choices nor a label"),
    "zero as a digit": ("0", XYZ, "the answer '0'", "neither one of the choices nor a label"),
    "negative digit": ("-1", XYZ, "the answer '-1'", "neither one of the choices nor a label"),
    "empty": ("", XYZ, "the answer ''", "neither one of the choices nor a label"),
    "other text": ("Paris", XYZ, "the answer 'Paris'", "neither one of the choices nor a label"),
    "text in another case": ("paris", ["Paris", "Rome"], "the answer 'paris'", "neither one of the choices"),
    "bool among three": (True, XYZ, "the answer True", "a bool needs two choices"),
    "one of a list": ([0, "Paris"], XYZ, "the answer 'Paris'", "neither one of the choices nor a label"),
    "list in a list": ([[0]], XYZ, "the answer [0]", "not an index, label or text"),
    "letter of one choice and text of another": ("A", ["B", "A"], "the answer 'A'", "index 1 as a choice or 0 as a"),
    "digit of one choice and text of another": ("1", ["0", "1"], "the answer '1'", "1 as a choice or 0 as a 1-based"),
    "article among the choices": ("a", ["the", "a"], "the answer 'a'", "index 1 as a choice or 0 as a letter"),
    "text of two equal choices": ("x", ["x", "x"], "the answer 'x'", "index 0 as a choice or 1 as a choice"),
}


@pytest.mark.parametrize(("answer", "choices", "named", "why"), UNRESOLVED.values(), ids=UNRESOLVED.keys())
def test_an_answer_that_does_not_resolve_is_an_error_that_names_it_and_the_remedy(answer, choices, named, why):
    with pytest.raises(DataError) as caught:
        gold_index(answer, choices)
    assert named in caught.value.what
    assert why in caught.value.what
    out_of_range = HIDDEN if answer == -1 else OUT_OF_RANGE
    assert caught.value.hint == (out_of_range if "the index is not between" in caught.value.what else REMEDY)


def test_a_label_that_means_another_letter_is_ambiguous():
    with pytest.raises(DataError, match="ambiguous: index 0 as a label or 1 as a letter"):
        gold_index("B", ["x", "y"], ["B", "A"])


def test_without_choices_the_error_says_where_to_look():
    with pytest.raises(DataError, match="there are no choices; check doc_to_choice"):
        gold_index(0, [])


def test_an_empty_list_of_answers_is_an_error():
    with pytest.raises(DataError, match="the list of answers is empty; check doc_to_target"):
        gold_index([], XYZ)


def test_an_index_is_right_even_where_choices_are_equal():
    assert gold_index(1, ["x", "x"]) == 1


def test_long_answers_and_choices_are_cut_in_messages():
    with pytest.raises(DataError) as caught:
        gold_index("long " * 1000, ["words " * 1000])
    assert len(str(caught.value)) < 500


def test_gold_text_is_the_text_of_the_right_choice():
    assert gold_text("B", XYZ) == "y"
    assert gold_text([0, "c"], XYZ) == ["x", "z"]
    assert gold_text(1, [10, 20]) == "20"


def test_gold_label_is_the_label_of_the_right_choice():
    assert gold_label("y", XYZ) == "B"
    assert gold_label("y", XYZ, "numbers") == "2"
    assert gold_label("y", XYZ, ("I", "II", "III")) == "II"
    assert gold_label(["x", 2], XYZ) == ["A", "C"]


def test_letters_go_on_after_z_as_in_a_spreadsheet():
    labels = label_list(26 + 26 * 26 + 1)
    assert labels[:2] + labels[24:29] == ["A", "B", "Y", "Z", "AA", "AB", "AC"]
    assert labels[-2:] == ["ZZ", "AAA"]


def test_numbers_are_strings_from_one():
    assert label_list(11, "numbers") == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]


def test_custom_labels_are_cut_to_the_number_of_choices():
    assert label_list(2, ["I", "II", "III"]) == ["I", "II"]
    assert label_list(0, ["I"]) == []


def test_too_few_custom_labels_are_an_error_that_says_how_many():
    with pytest.raises(DataError) as caught:
        label_list(3, ["I", "II"])
    assert str(caught.value) == (
        "3 choices but only 2 labels (I, II); add labels to choice_labels, or use 'letters' or 'numbers'"
    )


@pytest.mark.parametrize(
    ("words", "phrase"),
    [([], ""), (["A"], "A"), (["A", "B"], "A and B"), (["A", "B", "C"], "A, B and C"), ([1, 2, 3], "1, 2 and 3")],
    ids=["none", "one", "two", "three", "numbers"],
)
def test_join_words_puts_the_word_before_the_last(words, phrase):
    assert join_words(words, "and") == phrase


numbers_of_choices = st.integers(min_value=1, max_value=60)
#: Texts that are neither a letter nor a digit, so that they can only mean a choice.
phrases = st.text(alphabet=string.ascii_lowercase + " é中", min_size=4, max_size=20).filter(
    lambda text: len(text.split()) > 1
)


@given(numbers_of_choices, st.data())
def test_every_way_to_write_an_index_gives_it_back(number, data):
    choices = [f"choice number {n}" for n in range(number)]
    index = data.draw(st.integers(min_value=0, max_value=number - 1))
    letter = next(islice(letters(), index, None))
    for answer in (index, float(index), np.int32(index), letter, letter.lower(), str(index + 1), choices[index]):
        assert gold_index(answer, choices) == index


@given(st.lists(phrases, min_size=1, max_size=12, unique_by=str.strip), st.data())
def test_the_text_of_a_choice_resolves_to_it(choices, data):
    index = data.draw(st.integers(min_value=0, max_value=len(choices) - 1))
    assert gold_index(choices[index], choices) == index
    assert gold_text(choices[index], choices) == choices[index]


@given(numbers_of_choices, st.sampled_from(["letters", "numbers"]), st.data())
def test_a_label_of_a_choice_resolves_to_it(number, spec, data):
    choices = [f"choice number {n}" for n in range(number)]
    index = data.draw(st.integers(min_value=0, max_value=number - 1))
    label = gold_label(index, choices, spec)
    assert gold_index(label, choices, spec) == index


@given(numbers_of_choices, st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.booleans()))
def test_any_answer_gives_an_index_of_a_choice_or_a_data_error(number, answer):
    choices = [f"choice number {n}" for n in range(number)]
    try:
        index = gold_index(answer, choices)
    except DataError as error:
        assert error.hint  # noqa: PT017
    else:
        assert isinstance(index, int)
        assert 0 <= index < number


@given(st.integers(min_value=0, max_value=2000), st.sampled_from(["letters", "numbers"]))
def test_labels_are_distinct_and_grow_at_the_end(number, spec):
    labels = label_list(number, spec)
    assert len(set(labels)) == number
    assert label_list(number + 1, spec)[:-1] == labels


@given(st.lists(st.text(alphabet=string.ascii_letters, min_size=1), min_size=1))
def test_join_words_keeps_every_word(words):
    phrase = join_words(words, "&")
    assert phrase.replace(" & ", ", ").split(", ") == words
