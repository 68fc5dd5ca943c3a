"""Checks on the data of the bundled quiz."""

import ast
import json
import operator
import re
from collections import Counter
from fractions import Fraction
from importlib.resources import files
from itertools import groupby, permutations
from statistics import mean

import pytest

SPLITS = ("test", "fewshot")
SUBJECTS = {
    "astronomy",
    "biology",
    "chemistry",
    "physics",
    "geography",
    "history",
    "mathematics",
    "computing",
    "language",
    "music_and_art",
    "everyday_life",
    "health",
}
QUESTION_COUNTS = {"test": 144, "fewshot": 20}
PROBLEM_COUNTS = {"test": 40, "fewshot": 8}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

every_split = pytest.mark.parametrize("split", SPLITS)
every_kind_and_split = pytest.mark.parametrize(
    ("kind", "split"), [(kind, split) for kind in ("questions", "problems") for split in SPLITS]
)


def read_text(kind, split):
    path = files("multiform.tasks.library").joinpath("quiz").joinpath(kind).joinpath(f"{split}.jsonl")
    return path.read_text(encoding="utf-8")


def load(kind, split):
    return [json.loads(line) for line in read_text(kind, split).splitlines()]


def normalised(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def correct_choice(question):
    return question["choices"][question["answer"]]


def wrong_choices(question):
    return [choice for index, choice in enumerate(question["choices"]) if index != question["answer"]]


def evaluate(expression):
    """Return the exact value of a sum such as ``2 * (9 + 6)``."""

    def value(node):
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        return Fraction(str(node.value))

    return value(ast.parse(expression.strip(), mode="eval").body)


@every_kind_and_split
def test_every_line_is_one_object_and_the_file_ends_with_a_newline(kind, split):
    text = read_text(kind, split)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\r" not in text
    assert all(isinstance(json.loads(line), dict) for line in text[:-1].split("\n"))


@every_split
def test_questions_have_their_keys_in_order_and_the_right_types(split):
    for question in load("questions", split):
        assert list(question) == ["id", "subject", "question", "choices", "answer"], question
        assert all(isinstance(question[key], str) for key in ("id", "subject", "question")), question
        assert all(isinstance(choice, str) for choice in question["choices"]), question
        assert type(question["answer"]) is int, question
        assert question["answer"] in range(4), question


@every_split
def test_problems_have_their_keys_in_order_and_are_all_text(split):
    for problem in load("problems", split):
        assert list(problem) == ["id", "question", "solution", "answer"], problem
        assert all(isinstance(value, str) and value for value in problem.values()), problem


@every_split
def test_number_of_questions(split):
    assert len(load("questions", split)) == QUESTION_COUNTS[split]


@every_split
def test_number_of_problems(split):
    assert len(load("problems", split)) == PROBLEM_COUNTS[split]


def test_every_subject_has_twelve_test_questions():
    counts = Counter(question["subject"] for question in load("questions", "test"))
    assert counts == dict.fromkeys(SUBJECTS, 12)


def test_every_subject_has_a_fewshot_question():
    assert {question["subject"] for question in load("questions", "fewshot")} == SUBJECTS


@every_split
def test_question_ids_start_with_their_subject(split):
    for question in load("questions", split):
        assert re.fullmatch(re.escape(question["subject"]) + r"-(fewshot-)?\d\d", question["id"]), question


@pytest.mark.parametrize("kind", ["questions", "problems"])
def test_ids_are_unique_over_both_splits(kind):
    ids = [item["id"] for split in SPLITS for item in load(kind, split)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("kind", ["questions", "problems"])
def test_no_question_occurs_twice_within_or_across_splits(kind):
    texts = Counter(normalised(item["question"]) for split in SPLITS for item in load(kind, split))
    assert [text for text, count in texts.items() if count > 1] == []


@every_kind_and_split
def test_text_has_no_stray_white_space(kind, split):
    for item in load(kind, split):
        texts = [value for value in item.values() if isinstance(value, str)] + item.get("choices", [])
        assert all(text == " ".join(text.split()) for text in texts), item


@every_split
def test_questions_are_one_sentence_of_suitable_length_with_a_question_mark(split):
    for question in load("questions", split):
        text = question["question"]
        assert text.endswith("?"), text
        assert text.count("?") == 1, text
        assert not re.search(r"[.!] ", text), text
        assert 30 <= len(text) <= 140, text


@every_split
def test_questions_stand_on_their_own_without_the_choices(split):
    for question in load("questions", split):
        assert not re.search(r"\b(following|of these|listed|below)\b", question["question"].lower()), question


@every_split
def test_there_are_four_distinct_choices(split):
    for question in load("questions", split):
        assert len(question["choices"]) == 4, question
        assert len({normalised(choice) for choice in question["choices"]}) == 4, question


@every_split
def test_choices_are_short_and_plain(split):
    for question in load("questions", split):
        for choice in question["choices"]:
            assert 1 <= len(choice.split()) <= 5, question
            assert not choice.endswith("."), question
            assert not re.search(r"\b(all|none|both) of\b", choice.lower()), question
            assert not re.fullmatch(r"[A-Za-z]|[1-4]", choice), question


@every_split
def test_choices_of_a_question_are_capitalised_alike(split):
    for question in load("questions", split):
        first_letters = [choice[0] for choice in question["choices"] if choice[0].isalpha()]
        assert len({letter.isupper() for letter in first_letters}) <= 1, question


@every_split
def test_no_choice_occurs_in_its_question(split):
    for question in load("questions", split):
        text = question["question"].lower()
        assert not any(choice.lower() in text for choice in question["choices"]), question


@every_split
def test_no_choice_is_part_of_another_choice(split):
    for question in load("questions", split):
        pairs = permutations(question["choices"], 2)
        assert not any(one.lower() in other.lower() for one, other in pairs), question


@every_split
def test_answers_are_spread_evenly_over_the_positions(split):
    counts = Counter(question["answer"] for question in load("questions", split))
    assert counts == dict.fromkeys(range(4), QUESTION_COUNTS[split] // 4)


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_answers_are_spread_evenly_within_each_subject(subject):
    questions = [question for question in load("questions", "test") if question["subject"] == subject]
    assert Counter(question["answer"] for question in questions) == dict.fromkeys(range(4), 3)


@every_split
def test_no_answer_position_comes_more_than_three_times_in_a_row(split):
    runs = groupby(question["answer"] for question in load("questions", split))
    assert max(len(list(run)) for _, run in runs) <= 3


@every_split
def test_answer_positions_follow_no_repeating_pattern(split):
    positions = [question["answer"] for question in load("questions", split)]
    for size in range(4, 13):
        for start in range(len(positions) - 2 * size + 1):
            middle = start + size
            assert positions[start:middle] != positions[middle : middle + size], (start, size)


@every_split
def test_correct_choice_is_not_given_away_by_being_longest_or_shortest(split):
    questions = load("questions", split)
    longest = [len(correct_choice(q)) > max(map(len, wrong_choices(q))) for q in questions]
    shortest = [len(correct_choice(q)) < min(map(len, wrong_choices(q))) for q in questions]
    assert 0.15 <= mean(longest) <= 0.30
    assert 0.15 <= mean(shortest) <= 0.30


@every_split
def test_correct_and_wrong_choices_have_about_the_same_mean_length(split):
    questions = load("questions", split)
    correct = mean(len(correct_choice(question)) for question in questions)
    wrong = mean(len(choice) for question in questions for choice in wrong_choices(question))
    assert abs(correct / wrong - 1) < 0.05


@every_split
def test_problems_ask_exactly_one_question_at_the_end(split):
    for problem in load("problems", split):
        assert problem["question"].endswith("?"), problem
        assert problem["question"].count("?") == 1, problem


@every_split
def test_problem_ids_are_numbered_in_order(split):
    prefix = "problem-" if split == "test" else "problem-fewshot-"
    ids = [problem["id"] for problem in load("problems", split)]
    assert ids == [f"{prefix}{number:02}" for number in range(1, PROBLEM_COUNTS[split] + 1)]


@every_split
def test_problem_answers_are_plain_numbers(split):
    for problem in load("problems", split):
        assert re.fullmatch(r"(0|[1-9]\d*)(\.\d*[1-9])?", problem["answer"]), problem
        assert float(problem["answer"]) > 0, problem


@every_split
def test_problem_solutions_are_one_or_two_sentences_that_state_the_answer(split):
    for problem in load("problems", split):
        solution = problem["solution"]
        assert solution.endswith("."), problem
        assert len(re.split(r"(?<=\.) ", solution)) <= 2, problem
        assert problem["answer"] in re.findall(r"\d+(?:\.\d+)?", solution), problem


@every_split
def test_sums_in_problem_solutions_are_right(split):
    for problem in load("problems", split):
        for chain in re.findall(r"[\d(][\d.()+\-x/ ]*=[\d.()+\-x/= ]*\d", problem["solution"]):
            sides = [evaluate(side.replace("x", "*")) for side in chain.split("=")]
            assert len(set(sides)) == 1, (problem["id"], chain)
