"""Which choice a model's text settles on: what models really write, and what is read out of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from multiform.labels import label_list, leading_label
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers
from multiform.scoring.scorers.choice_match import ChoiceMatch, read_choice

LABELS = ["A", "B", "C", "D"]
CHOICES = ["Berlin", "Paris", "Rome", "Madrid"]
QUESTION = "Question: What is the capital of France?\nA. Berlin\nB. Paris\nC. Rome\nD. Madrid\n"

# A text that stands by itself: what it says last counts.

TERSE = [
    ("B", "B"),
    (" B", "B"),
    ("B\n", "B"),
    ("B.", "B"),
    ("B)", "B"),
    ("(B)", "B"),
    ("[B]", "B"),
    ("B:", "B"),
    ("B,", "B"),
    ('"B"', "B"),
    ("'B'", "B"),
    ("“B”", "B"),
    ("D", "D"),
    ("b", "B"),
    ("b.", "B"),
    ("b)", "B"),
    ("(b)", "B"),
    ("[b]", "B"),
    ("a", "A"),
    ("B. Paris", "B"),
    ("B) Paris", "B"),
    ("B: Paris", "B"),
    ("B, Paris", "B"),
    ("B - Paris", "B"),
    ("(B) Paris", "B"),
    ("b) paris", "B"),
    ("Option B", "B"),
    ("option b.", "B"),
    ("Choice B: Paris", "B"),
    ("Paris", "B"),
    ("paris", "B"),
    ("Paris.", "B"),
    ("PARIS!", "B"),
    ("B\n\nExplanation: Paris is the capital, and Rome is not.", "B"),
    ("B is correct.", "B"),
    ("B is the correct answer, unlike A.", "B"),
]

STATED = [
    ("The best answer is B", "B"),
    ("The best answer is B.", "B"),
    ("The best answer is: B", "B"),
    ("The best answer is (B).", "B"),
    ("The best answer is [B]", "B"),
    ('The best answer is "B".', "B"),
    ("The best answer is “B”", "B"),
    ("The best answer is ( B )", "B"),
    ("The best answer is option B", "B"),
    ("The best answer is choice (B).", "B"),
    ("The best answer is B) Paris", "B"),
    ("The best answer is B, Paris.", "B"),
    ("The best answer is B because Paris is the capital, unlike Rome.", "B"),
    ("The best answer is C, not B", "C"),
    ("So the best answer would be B", "B"),
    ("The correct option is B.", "B"),
    ("The right choice is (B)", "B"),
    ("the correct answer is b.", "B"),
    ("the answer is b", "B"),
    ("The answer is a", "A"),
    ("The answer is (a).", "A"),
    ("The answer is A", "A"),
    ("Answer: B", "B"),
    ("Answer:B", "B"),
    ("ANSWER: B", "B"),
    ("answer = B", "B"),
    ("Answer: b", "B"),
    ("Choice: B", "B"),
    ("Final Answer: B", "B"),
    ("The answer is\n\nB", "B"),
    ("The best answer is Paris", "B"),
    ("The best answer is Paris, the capital of France.", "B"),
    ("It is Paris, of course", "B"),
    ("I'd go with (B).", "B"),
    ("The capital of France is Paris (B).", "B"),
]

MARKDOWN = [
    ("**B**", "B"),
    ("*B*", "B"),
    ("`B`", "B"),
    ("__B__", "B"),
    ("**B. Paris**", "B"),
    ("**B**: Paris", "B"),
    ("**Answer:** B", "B"),
    ("**Answer**: B", "B"),
    ("**Answer: B**", "B"),
    ("**The best answer is B**", "B"),
    ("The best answer is **B**.", "B"),
    ("The best answer is `B`", "B"),
    ("The answer is: \n\n**B. Paris**", "B"),
    ("### Answer\nB", "B"),
    ("## Answer: **(B) Paris**", "B"),
    ("Paris is the capital of France.\n\n**B**", "B"),
    ("- A: in Germany\n- B: in France\n\n**Answer:** (B)", "B"),
]

LATEX = [
    (r"\boxed{B}", "B"),
    (r"$\boxed{B}$", "B"),
    (r"\(\boxed{B}\)", "B"),
    (r"\boxed{\text{B}}", "B"),
    (r"\boxed{\textbf{B}}", "B"),
    (r"\boxed{\mathrm{B}}", "B"),
    (r"$\boxed{\text{(B)}}$", "B"),
    (r"\boxed{(B)}", "B"),
    (r"\boxed{b}", "B"),
    (r"\boxed{Paris}", "B"),
    (r"\boxed{\text{Paris}}", "B"),
    (r"\boxed{B. Paris}", "B"),
    (r"The final answer is $\boxed{B}$.", "B"),
    ("The best answer is $B$.", "B"),
    (r"First \boxed{A}, but no: \boxed{B}", "B"),
    (r"A: compare the cities. Hence \boxed{B}", "B"),
]

REASONING = [
    ("A is wrong. I think the best answer is C", "C"),
    ("A is wrong because Berlin is in Germany. The best answer is B.", "B"),
    ("A good question! The capital of France is Paris.", "B"),
    ("A capital city is asked for. The best answer is B", "B"),
    ("Let me think.\n\nB", "B"),
    ("Berlin is in Germany and Rome in Italy.\n\nThe answer is B.", "B"),
    ("A. Berlin is in Germany.\nB. Paris is in France.\nC. Rome is in Italy.\nSo the answer is B.", "B"),
    (QUESTION + "The best answer is B", "B"),
    ("A. Berlin\nB. Paris\nC. Rome\nD. Madrid\n\nThe best answer is B", "B"),
    ("The answer is not (B), the answer is (C)", "C"),
    ("Among A, B, C and D, the best answer is D.", "D"),
    ('Your response should end with "The best answer is [answer_letter]". The best answer is B', "B"),
]

CORRECTED = [
    ("The best answer is A. Wait, no. The best answer is B.", "B"),
    ("The answer is A... no, the answer is C", "C"),
    ("The best answer is A.\n\nActually, Berlin is in Germany, so the best answer is B.", "B"),
    ("Answer: A (Berlin)... Correction: Answer: B (Paris)", "B"),
    ("B. No, wait: the answer is C.", "C"),
    ("**Answer:** A\n\nLet me check that again.\n\n**Answer:** B", "B"),
]

UNCLEAR = [
    ("", None),
    ("   ", None),
    ("\n\n", None),
    ("...", None),
    ("A good question, who knows", None),
    ("A city in France", None),
    ("A-levels are hard", None),
    ("The best answer is a matter of taste", None),
    ("The answer is a city in France", None),
    ("The best answer is an open question.", None),
    ("I don't know.", None),
    ("I cannot answer that.", None),
    ("As an AI language model, I cannot answer this question.", None),
    ("I'm sorry, but I can't help with that.", None),
    ("None of the above", None),
    ("All of the above", None),
    ("E", None),
    ("The answer is E", None),
    ("(F)", None),
    ("AB", None),
    ("The best answer is AB", None),
    ("DNA", None),
    ("Because", None),
    ("Actually", None),
    ("A and B are both plausible.", None),
    ("A or B", None),
    ("Either A or B", None),
    ("A, B, C, D", None),
    ("A, B, C and D are all cities", None),
    ("The best answer is B or C", None),
    ("The best answer is B/C", None),
    ("The answer is (A) or (B)", None),
    ("The best answers are B and C", None),
    ("Both Berlin and Paris are capitals.", None),
    ("The answer is not B", None),
    ("It is not Paris", None),
    ("It isn't Paris.", None),
    ("It is not (B).", None),
    ("A. Berlin\nB. Paris\nC. Rome\nD. Madrid", None),
    ("(A) Berlin\n(B) Paris\n(C) Rome\n(D) Madrid\n", None),
    (QUESTION, None),
    ("The best answer is [answer_letter]", None),
    ("Parisian", None),
]


def cases(*tables):
    return [pytest.param(text, label, id=repr(text)[1:61]) for table in tables for text, label in table]


@pytest.mark.parametrize(("text", "label"), cases(TERSE, STATED, MARKDOWN, LATEX, REASONING, CORRECTED, UNCLEAR))
def test_what_a_text_settles_on(text, label):
    assert read_choice(text, LABELS, CHOICES) == label


# A text that goes on after "The best answer is": what it says first counts.

PRIMED = [
    (" B", "B"),
    ("B", "B"),
    (" B.", "B"),
    (" B. Paris", "B"),
    (" B) Paris", "B"),
    (" (B)", "B"),
    (" (B) Paris.", "B"),
    (" [B]", "B"),
    (" **B**", "B"),
    (" **B. Paris**", "B"),
    (" $B$", "B"),
    (' "B"', "B"),
    (" b", "B"),
    (" (b)", "B"),
    (" b. paris", "B"),
    (": B", "B"),
    (":\n\nB", "B"),
    (":\nB. Paris", "B"),
    ("\n\nB", "B"),
    (" option B", "B"),
    (" Paris", "B"),
    (" Paris.", "B"),
    (" B</s>", "B"),
    (" B because A is wrong", "B"),
    (" A because Germany is meant", "A"),
    (" A is right", "A"),
    (" B, since Paris is the capital. A is wrong.", "B"),
    (" B\n\nQuestion: What is next?\nA. x\nB. y", "B"),
    (" B\nThe best answer is C", "B"),
    (" C. The best answer is B", "C"),
    (" A.\n\nWait, the best answer is B", "A"),
    (" to be found below.\nThe best answer is B", "B"),
    (" that Paris is the capital", "B"),
    ("", None),
    ("\n", None),
    (" A good question", None),
    (" a matter of taste", None),
    (" not clear", None),
    (" not Paris", None),
    (" the second one", None),
    (" E", None),
    (" A or B", None),
    (" A, B or C", None),
    (" Albert", None),
    (" Berlin? No: Paris", None),
    (" [answer_letter]", None),
]


@pytest.mark.parametrize(("text", "label"), cases(PRIMED))
def test_what_a_text_says_first_after_the_beginning_of_an_answer(text, label):
    assert read_choice(text, LABELS, CHOICES, primed=True) == label


BOXED_AFTER_PREFIX = [
    *((" " + text, label) for text, label in LATEX if text.startswith(("\\boxed", "$\\boxed", "\\(\\boxed"))),
    (r": $\boxed{C}$. The capital is not Paris.", "C"),
    (r" \boxed{C}, not \boxed{B}", "C"),
    ("...\nLet us see.\n\\boxed{C}", "C"),
]


@pytest.mark.parametrize(("text", "label"), BOXED_AFTER_PREFIX, ids=[repr(text) for text, _ in BOXED_AFTER_PREFIX])
def test_a_boxed_answer_counts_after_a_gen_prefix(text, label):
    assert read_choice(text, LABELS, CHOICES, primed=True) == label


NUMBERS = [
    ("2", "2"),
    ("2.", "2"),
    ("(2)", "2"),
    ("2) y", "2"),
    ("Option 2", "2"),
    ("The answer is 2", "2"),
    ("The answer is 2.", "2"),
    ("2 is wrong, so the answer is 3", "3"),
    ("1. x\n2. y\n3. z\nThe answer is 3", "3"),
    ("The answer is y", "2"),
    *(
        (text, None)
        for text in ("The answer is 12", "The answer is 2.5", "The answer is 4", "10", "There are 3 options")
    ),
]


@pytest.mark.parametrize(("text", "label"), cases(NUMBERS))
def test_labels_that_are_numbers(text, label):
    assert read_choice(text, ["1", "2", "3"], ["x", "y", "z"]) == label


def test_a_number_that_is_a_choice_is_read_as_the_choice():
    labels, choices = ["1", "2", "3"], ["10", "20", "30"]
    assert read_choice("The answer is 20", labels, choices) == "2"
    assert read_choice("The answer is 2", labels, choices) == "2"
    assert read_choice(" 30", labels, choices, primed=True) == "3"


def test_a_number_that_is_a_label_and_another_choice_is_read_as_the_label():
    assert read_choice("The answer is 3", ["1", "2", "3"], ["3", "1", "2"]) == "3"


ROMAN = [
    ("II", "II"),
    ("(II)", "II"),
    ("ii)", "II"),
    ("I", "I"),
    ("I.", "I"),
    ("I. x", "I"),
    ("The answer is II", "II"),
    ("The answer is I.", "I"),
    ("The answer is III and not II", "III"),
    ("I think the answer is III", "III"),
    ("I do not know", None),
    ("I'm not sure", None),
    ("I cannot say", None),
    ("IIII", None),
]


LOWER = [
    ("b", "b"),
    ("(b)", "b"),
    ("B", "b"),
    ("a.", "a"),
    ("a", "a"),
    ("The answer is a", "a"),
    ("The answer is a because x is right", "a"),
    ("The answer is a planet", None),
    ("The answer is a matter of taste. The answer is b", "b"),
    ("a good question", None),
]


@pytest.mark.parametrize(("text", "label"), cases(LOWER))
def test_labels_in_lower_case_are_told_from_an_article(text, label):
    assert read_choice(text, ["a", "b", "c"], ["x", "y", "z"]) == label


@pytest.mark.parametrize(("text", "label"), cases([(" a", "a"), (" a.", "a"), (" a planet", None), (" b", "b")]))
def test_labels_in_lower_case_after_the_beginning_of_an_answer(text, label):
    assert read_choice(text, ["a", "b", "c"], ["x", "y", "z"], primed=True) == label


@pytest.mark.parametrize(("text", "label"), cases(ROMAN))
def test_labels_of_ones_own(text, label):
    assert read_choice(text, ["I", "II", "III"], ["x", "y", "z"]) == label


@pytest.mark.parametrize(
    ("text", "label"), cases([(" I", "I"), (" II. y", "II"), (" I do not know", None), (" I think so", None)])
)
def test_labels_of_ones_own_after_the_beginning_of_an_answer(text, label):
    assert read_choice(text, ["I", "II", "III"], ["x", "y", "z"], primed=True) == label


def test_labels_with_brackets_of_their_own():
    labels, choices = ["(a)", "(b)"], ["x", "y"]
    for text in ("(b)", "(b) y", "The answer is (b).", "**(b)**", "(B)"):
        assert read_choice(text, labels, choices) == "(b)", text


def test_labels_that_are_words_are_read_in_any_case():
    labels, choices = ["yes", "no"], ["x", "y"]
    for text, label in {"Yes": "yes", "No.": "no", "Yes, because": "yes", "The answer is No": "no"}.items():
        assert read_choice(text, labels, choices) == label, text


def test_labels_after_z():
    labels, choices = label_list(30), [f"choice {n}" for n in range(30)]
    assert read_choice("The best answer is AB", labels, choices) == "AB"
    assert read_choice(" AA.", labels, choices, primed=True) == "AA"
    assert read_choice("(Z)", labels, choices) == "Z"


# Choices that are alike

ALIKE: dict[str, tuple[list[str], list[tuple[str, str | None]]]] = {
    "word in a word": (["cat", "category"], [("category", "B"), ("The cat", "A"), ("cat or category", None)]),
    "part of a phrase": (["the sun", "the sun and the moon"], [("the sun", "A"), ("the sun and the moon.", "B")]),
    "decimals": (["3.5", "3", "35"], [("3.5", "A"), ("3", "B"), ("35", "C"), ("It is 3.5 metres", "A")]),
    "signs": (["-5", "5"], [("-5", "A"), ("5", "B"), ("The answer is -5", "A")]),
    "units": (["5 %", "5 km"], [("5%", None), ("5 km", "B")]),
    "yes and no": (["Yes", "No"], [("Yes", "A"), ("no", "B"), ("No, because", "B"), ("The answer is no.", "B")]),
    "no in passing": (["Yes", "No"], [("I have no idea", None), ("There is no doubt: yes", "A")]),
    "true and false": (["True", "False"], [("The statement is false.", "B"), ("True", "A"), ("true or false", None)]),
    "articles": (["a", "the"], [("It is a word", None), ("The answer is a", "A")]),
    "equal": (["same", "same"], [("same", None), ("B", "B")]),
    "quoted": (['"Hamlet"', "Macbeth"], [("Hamlet", "A"), ("The answer is “Macbeth”.", "B")]),
    "accents": (["Zürich", "Genève"], [("zürich", "A"), ("Genève.", "B")]),
    "empty": (["", "x"], [("", None), ("x", "B"), ("A", "A")]),
    "other scripts": (["北京", "上海"], [("上海", "B"), ("B", "B")]),
}


@pytest.mark.parametrize(
    ("choices", "text", "label"),
    [pytest.param(xs, text, label, id=f"{name}: {text}") for name, (xs, ys) in ALIKE.items() for text, label in ys],
)
def test_choices_that_are_alike(choices, text, label):
    assert read_choice(text, label_list(len(choices)), choices) == label


# Texts that were cut off

CUT = [
    ("First, consider Berlin. It is the capital of", None),
    ("Let me go through the options.\n(A) is in Germany, and", None),
    ("The best answer is B, because the", "B"),
    ("B. Paris is the", "B"),
    ("", None),
]


@pytest.mark.parametrize(("text", "label"), cases(CUT))
def test_what_a_text_that_was_cut_off_mentions_is_not_its_answer(text, label):
    assert read_choice(text, LABELS, CHOICES, finished=False) == label


# The scorer around it


def score(text, reference, **fields):
    names = ("exact_match", "invalid", "truncated")
    scorer = scorers.get("choice_match")(
        pipeline=Pipeline("none", ()), metrics=[build_metric({"metric": name}) for name in names]
    )
    outcome = TextOutcome(
        prediction=text, references=(reference,), labels=tuple(LABELS), choices=tuple(CHOICES), **fields
    )
    return tuple(scorer.score(outcome)[name] for name in names)


def test_a_right_answer_scores():
    assert score("The best answer is B", "B") == (1.0, 0.0, 0.0)
    assert score("paris", "B") == (1.0, 0.0, 0.0)


def test_a_wrong_answer_does_not_score_but_is_valid():
    assert score("The best answer is C", "B") == (0.0, 0.0, 0.0)


def test_no_answer_is_invalid():
    assert score("Who knows", "B") == (0.0, 1.0, 0.0)
    assert score("", "B") == (0.0, 1.0, 0.0)


def test_a_text_that_a_filter_took_away_is_invalid():
    assert score(None, "B") == (0.0, 1.0, 0.0)


def test_a_text_that_was_cut_off_is_counted():
    assert score("First, consider Paris. It is", "B", truncated=True) == (0.0, 1.0, 1.0)


def test_the_beginning_of_the_answer_in_the_prompt_decides_what_counts():
    assert score(" C. The best answer is B", "B", primed="The best answer is") == (0.0, 0.0, 0.0)
    assert score("C. The best answer is B", "B") == (1.0, 0.0, 0.0)


# Whatever a model writes


@given(st.text(max_size=200), st.booleans(), st.sampled_from(["letters", "numbers", ("I", "II", "III", "IV")]))
def test_any_text_gives_one_of_the_labels_or_none(text, primed, spec):
    labels = label_list(4, spec)
    assert read_choice(text, labels, CHOICES, primed=primed) in {*labels, None}


@given(st.sampled_from(LABELS), st.sampled_from(["", ".", ")", "\n"]), st.sampled_from(["", " ", "\n\n"]))
def test_a_label_alone_is_always_read(label, after, before):
    assert read_choice(before + label + after, LABELS, CHOICES) == label
    assert read_choice(before + label + after, LABELS, CHOICES, primed=True) == label


@given(st.sampled_from(LABELS), st.text(alphabet="xyz ,.\n", max_size=80))
def test_a_statement_at_the_end_is_read_whatever_was_said_before(label, said):
    assert read_choice(f"{said}\nThe best answer is {label}.", LABELS, CHOICES) == label


REPEATED = ["* ", " ", "\n", "answer is ", "The answer is A or ", "(", "**A", "A, ", "\\boxed{", "Berlin ", "1."]


@pytest.mark.parametrize("piece", REPEATED, ids=repr)
@pytest.mark.parametrize("start", ["", "The best answer is", "A."], ids=repr)
def test_a_model_that_repeats_itself_is_read_in_no_time(piece, start):
    started = time.perf_counter()
    for primed in (True, False):
        read_choice(start + piece * 8000, LABELS, CHOICES, primed=primed)
    assert time.perf_counter() - started < 2.0


# Completions that end as soon as the label is certain (`stop_at_answer`).

PIECES = st.sampled_from(
    [*" \n\t:*_.,;)]('\"/&-$’", *"ABCDIaby15", "Option ", "or ", "and ", "because", "is ", "not ", "Paris", "10",
     "\n\n", "answer is ", "\\boxed{B}", "best answer is C.", "é", "、", "です", "（"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map("".join)
STATEMENTS = [(), ("答えは{answer}です",), ("A legjobb válasz: {answer}", "Erantzun onena {answer} da")]


@pytest.mark.long
@pytest.mark.parametrize("labels", [LABELS, list("abcd"), label_list(12, "numbers"), label_list(10)])
@given(
    opening=st.sampled_from(["", " ", ": ", "\n", "**", " (", "“", "Option ", "*\n"]),
    number=st.integers(0, 3),
    rest=TEXTS,
    after=TEXTS,
    statements=st.sampled_from(STATEMENTS),
)
@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much])
def test_no_text_after_a_certain_label_changes_what_is_read(
    labels: list[str], opening: str, number: int, rest: str, after: str, statements: tuple[str, ...]
) -> None:
    before, pattern = opening + labels[number] + rest, leading_label(labels)
    assert pattern is not None
    certain = pattern.match(before)
    assume(certain)
    assert certain is not None
    scorer = ChoiceMatch(pipeline=Pipeline("none", ()), metrics=[], statements=statements)
    choices = [*CHOICES, *map(str, range(20, 30))][: len(labels)]

    def read(text: str) -> str | None:
        outcome = TextOutcome(prediction=text, references=("A",), labels=tuple(labels), primed="The best answer is")
        return scorer.read_answer(replace(outcome, choices=tuple(choices)))

    label = certain[0][-2:] if certain[0][-2:] in labels else certain[0][-1]
    assert read(before) == read(before + after) == label
    # A stop string may cut the text anywhere after the label.
    assert all(read(before[:end]) == label for end in range(certain.end(), len(before)))


@pytest.mark.parametrize("text", [" B. Paris", ": B. P", " B.\n", "**B**\n", "(B) is", " B: it", "Option B\n", " A\n"])
def test_a_label_is_certain_once_what_follows_shows_that_it_stands_alone(text: str) -> None:
    pattern = leading_label(LABELS)
    assert pattern is not None
    assert pattern.match(text)


@pytest.mark.parametrize("labels", [["yes", "Yes"], ["not sure", "sure"], ["A", "B_"], label_list(8, "roman")])
def test_no_label_is_certain_where_labels_are_not_short_words(labels: list[str]) -> None:
    assert leading_label(labels) is None
