"""Which final answer a chain of reasoning ends in, and when it agrees with the right one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers
from multiform.scoring.scorers.answers import read_final_answer

READ = [
    # as it was asked for
    ("The final answer is 4", "4"),
    ("The final answer is 4.", "4"),
    ("The final answer is: 4", "4"),
    ("the final answer is 4", "4"),
    ("THE FINAL ANSWER IS 4", "4"),
    ("The final answer was 4", "4"),
    ("The final answer would be 4", "4"),
    ("The final answer = 4", "4"),
    ("2 + 2 = 4.\n\nThe final answer is 4.", "4"),
    ("The final answer is\n\n4", "4"),
    ("The final answer is 4\n\nLet me know if you need more.", "4"),
    ('"The final answer is 4"', "4"),
    ("The final answer is [4]", "4"),
    ("The final answer is the Pacific Ocean.", "the Pacific Ocean"),
    ('The final answer is "Paris".', "Paris"),
    ("The final answer is “Paris”.", "Paris"),
    ("The final answer is -5", "-5"),
    ("The final answer is −5.", "-5"),
    ("The final answer is 3.5%", "3.5%"),
    ("The final answer is 1/2.", "1/2"),
    ("The final answer is Dr. Smith", "Dr. Smith"),
    # Markdown
    ("**The final answer is 4**", "4"),
    ("The final answer is **4**.", "4"),
    ("The final answer is `4`", "4"),
    ("Final Answer: 4", "4"),
    ("**Final Answer:** 4", "4"),
    ("**Final Answer**: 4", "4"),
    ("**Final Answer: Paris**", "Paris"),
    ("### Final Answer\n4", "4"),
    ("## Final Answer:\n\n4 apples", "4 apples"),
    ("**Final Answer**\n\nParis", "Paris"),
    # LaTeX
    ("The final answer is $4$.", "4"),
    (r"The final answer is \boxed{4}.", "4"),
    (r"The final answer is $\boxed{4}$.", "4"),
    (r"The final answer is: $\boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
    (r"\boxed{12}", "12"),
    (r"Thus \(\boxed{12}\).", "12"),
    (r"So \boxed{12} apples are left.", "12"),
    (r"\boxed{\text{Paris}}", "Paris"),
    (r"First \boxed{1}, then \boxed{2}", "2"),
    # other markers
    ("2 + 2\n#### 4", "4"),
    ("#### 1,234\n", "1,234"),
    ("So the answer is 4.", "4"),
    ("Answer: 4", "4"),
    ("**Answer:** 4", "4"),
    ("**Answer**: 4", "4"),
    # corrections and echoes: the last one counts, and a final answer more than another
    ("The final answer is 3. Wait, that's wrong. The final answer is 4.", "4"),
    ("The final answer is 3.\n\nNo, I forgot one.\n\nThe final answer is 4.", "4"),
    ("The answer is 3. The final answer is 4", "4"),
    ("The final answer is 4.\nSo the answer is four.", "4"),
    ('Your response should end with "The final answer is [answer]". The final answer is 7', "7"),
    # an answer by itself, as in the examples
    ("4", "4"),
    (" South America", "South America"),
    ("Paris.", "Paris"),
    ("**Paris**", "Paris"),
    ("$12$", "12"),
    # none
    ("", None),
    ("  \n", None),
    ("...", None),
    ("The final answer is", None),
    ("The final answer is:\n", None),
    ("The final answer is [answer]", None),
    ("Let me think.\nWho knows", None),
    ("First we add 2 and 2, which gives 4, then we multiply by 3", None),
    ("Step 1: add the apples.\nStep 2: now we can find the final ans", None),
    ("I am sorry, but I cannot help with that request.", None),
    ("Let me find the final answer step by step", None),
]


@pytest.mark.parametrize(("text", "answer"), READ, ids=[repr(text)[1:61] for text, _ in READ])
def test_the_answer_that_a_text_ends_in(text, answer):
    assert read_final_answer(text) == answer


def score(text, *references, truncated=False):
    names = ("exact_match", "invalid", "truncated")
    scorer = scorers.get("final_answer")(
        pipeline=Pipeline("none", ()), metrics=[build_metric({"metric": name}) for name in names]
    )
    values = scorer.score(TextOutcome(prediction=text, references=references, truncated=truncated))
    return tuple(values[name] for name in names)


AGREE = [
    # numbers
    ("42", "42"),
    ("42.0", "42"),
    ("42.00", "42"),
    ("42", "42.0"),
    ("+42", "42"),
    ("042", "42"),
    ("7", "07"),
    ("1,250", "1250"),
    ("1250", "1,250"),
    ("1,234,567.5", "1234567.50"),
    ("0.5", ".5"),
    (".5", "0.5"),
    ("1e3", "1000"),
    ("-5", "-5"),
    ("−5", "-5"),
    ("-0", "0"),
    # units, money and percent
    ("42 apples", "42"),
    ("42 apples.", "42"),
    ("42 km/h", "42"),
    ("42km", "42"),
    ("about 42", "42"),
    ("$42", "42"),
    ("$1,250.50", "1250.5"),
    ("€42", "42"),
    ("£42", "42"),
    ("¥42", "42"),
    ("US$42", "42"),
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("42 dollars", "$42"),
    ("42%", "42"),
    ("42 %", "42%"),
    ("42 percent", "42%"),
    # in words and formulas
    ("x = 42", "42"),
    ("6 * 7 = 42", "42"),
    ("42 (forty-two)", "42"),
    ("forty-two (42)", "42"),
    ("42, because 6 * 7 = 42", "42"),
    ("42. I hope this helps!", "42"),
    (r"$\boxed{42}$", "42"),
    (r"\(42\)", "42"),
    (r"42\%", "42"),
    (r"\$42", "42"),
    (r"$\frac{1}{2}$", r"\frac{1}{2}"),
    ("1/2", "1/2"),
    # words
    ("Paris", "Paris"),
    ("paris", "Paris"),
    ("PARIS", "Paris"),
    ("Paris!", "Paris"),
    ('"Paris"', "Paris"),
    ("the Pacific Ocean", "Pacific Ocean"),
    ("Pacific Ocean", "The Pacific Ocean"),
    ("Paris, France", "Paris"),
    ("Paris (the capital)", "Paris"),
    ("Paris. It lies on the Seine.", "Paris"),
    ("Dr. Smith", "dr. Smith."),
    ("U.S.", "U.S."),
    ("10:30", "10:30"),
    ("A", "a"),
    ("The", "the"),
    ("?", "?"),
    ("Zürich", "zürich"),
]

DIFFER = [
    ("43", "42"),
    ("420", "42"),
    ("4.2", "42"),
    ("42.5", "42"),
    ("4,2", "42"),
    ("12,34", "1234"),
    ("5", "-5"),
    ("-5", "5"),
    ("−5", "5"),
    ("50%", "0.5"),
    ("3 x 14", "14"),
    ("10^3", "3"),
    ("between 40 and 42", "42"),
    ("3 and 42", "42"),
    ("18 eggs and 2 ducks", "2"),
    ("42 dollars and 50 cents", "50"),
    ("nan", "42"),
    ("London", "Paris"),
    ("Pariser", "Paris"),
    ("not Paris", "Paris"),
    ("North America", "South America"),
    ("the", "a"),
    ("!", "?"),
    ("forty-two", "42"),
]


@pytest.mark.parametrize(("answer", "reference"), AGREE, ids=[f"{a} = {r}" for a, r in AGREE])
def test_answers_that_agree_with_the_right_one(answer, reference):
    assert score(f"Let me see.\nThe final answer is {answer}", reference) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(("answer", "reference"), DIFFER, ids=[f"{a} and {r}" for a, r in DIFFER])
def test_answers_that_do_not_agree_with_the_right_one(answer, reference):
    assert score(f"Let me see.\nThe final answer is {answer}", reference) == (0.0, 0.0, 0.0)


def test_any_of_several_references_may_agree():
    assert score("The final answer is NYC", "New York", "NYC") == (1.0, 0.0, 0.0)
    assert score("The final answer is 42.0", "forty-two", "42") == (1.0, 0.0, 0.0)


def test_the_earlier_of_two_answers_on_one_line_does_not_count():
    text = "The final answer is 3. Wait, that's wrong. The final answer is 4."
    assert score(text, "4") == (1.0, 0.0, 0.0)
    assert score(text, "3") == (0.0, 0.0, 0.0)


def test_no_answer_is_invalid():
    assert score("Let me think.\nWho knows", "42") == (0.0, 1.0, 0.0)
    assert score("", "42") == (0.0, 1.0, 0.0)
    assert score(None, "42") == (0.0, 1.0, 0.0)


def test_reasoning_that_was_cut_off_is_invalid_and_counted():
    text = "There are 6 boxes with 7 apples each.\nTo find the total, we compute 6 * 7 = 42. The fi"
    assert score(text, "42", truncated=True) == (0.0, 1.0, 1.0)


def test_an_answer_before_the_text_was_cut_off_counts():
    assert score("The final answer is 42.\nLet me exp", "42", truncated=True) == (1.0, 0.0, 1.0)


@given(st.text(max_size=200), st.text(max_size=20))
def test_any_text_can_be_scored(text, reference):
    right, invalid, _ = score(text, reference)
    assert (right, invalid) in {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)}


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_any_number_agrees_with_itself_however_it_is_written(number):
    for text in (f"{number}", f"{number:,}", f"{number:f}", f"{number} apples", f"x = {number}"):
        assert score(f"The final answer is {text}.", str(number))[0] == 1.0, text


@given(st.integers(min_value=-(10**9), max_value=10**9), st.integers(min_value=-(10**9), max_value=10**9))
def test_two_numbers_agree_only_when_they_are_equal(said, right):
    assert score(f"The final answer is {said:,}", str(right))[0] == float(said == right)


REPEATED = ["final answer ", "answer is ", "* ", " ", "\n", "1,", "\\boxed{", "{}", "the final answer is the ", "####"]


@pytest.mark.parametrize("piece", REPEATED, ids=repr)
@pytest.mark.parametrize("start", ["", "The final answer is", "\\boxed{"], ids=repr)
def test_a_model_that_repeats_itself_is_read_in_no_time(piece, start):
    started = time.perf_counter()
    score(start + piece * 8000, "42")
    assert time.perf_counter() - started < 2.0
