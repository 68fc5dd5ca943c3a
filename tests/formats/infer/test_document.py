"""Question and choices read back out of finished prompts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import ConfigError, DataError, Task, TaskConfig, evaluate
from multiform.formats.infer.document import problem, read_prompt

ROW = {"question": "Two and two?", "options": ["3", "4", "5"], "subject": "sums"}

READ = {
    "labels, choices in a column": ("Sums.\n\nQuestion: Two and two?\nA. 3\nB. 4\nC. 5\n\nAnswer:", ["A", "B", "C"]),
    "a header": ("Sums.\n\nTwo and two?\n\nChoices:\n   A: 3\n   B: 4\n   C: 5\n\nAnswer:  ", ["A", "B", "C"]),
    "texts": ("Sums.\n\nQuestion: Two and two?\n(1) 3\n(2) 4\n(3) 5\nAnswer:", ["3", "4", "5"]),
    "no choices in the prompt": ("Sums.\n\nQuestion: Two and two?\nAnswer:", ["3", "4", "5"]),
    "numbers": ("Sums.\n\nTwo and two?\n1. 3\n2. 4\n3. 5\nAnswer:", ["1", "2", "3"]),
    "on one line": ("Sums.\n\nTwo and two? A) 3 B) 4 C) 5", ["A", "B", "C"]),
}


@pytest.mark.parametrize(("text", "scored"), READ.values(), ids=READ.keys())
def test_a_prompt_is_read(text, scored):
    found = read_prompt(text, scored, ROW)
    assert (found.question, found.choices) == ("Sums.\n\nTwo and two?", ("3", "4", "5"))


def test_choices_in_the_column_of_the_question_are_read_where_a_line_announces_them():
    text = "Q: When?\nOptions:\n(A) 1990\n(B) 1991"
    found = read_prompt(f"{text}\nA:", ["(A)", "(B)", "(C)"], {"input": text.removeprefix("Q: ")})
    assert (found.question, found.choices) == ("When?", ("1990", "1991"))


def test_a_label_in_the_question_does_not_count():
    doc = {"question": "Is vitamin\nA. good?", "options": ["yes", "no"]}
    found = read_prompt("Is vitamin\nA. good?\nA. yes\nB. no\nAnswer:", ["A", "B"], doc)
    assert (found.question, found.choices) == ("Is vitamin\nA. good?", ("yes", "no"))


@pytest.mark.parametrize(
    "text", ["Two and two?\nAnswer:", "Two and two?\nA. three\nB. four", "A. 3\nC. 5\nTwo and two?"]
)
def test_labels_whose_texts_are_not_certain_are_refused(text):
    with pytest.raises(DataError, match="does not show for certain what they stand for"):
        read_prompt(text, ["A", "B", "C"], ROW)


PROBLEMS = {
    "labels": ("Which?", [" (A)", " (B)"], "the choices are labels"),
    "choices in the question": ("Which?\nA. x\nB. y", ["x", "y"], "the question shows the choices"),
    "a cue": ("Which?\nAnswer:", ["x", "y"], "the question ends in 'Answer:'"),
    "a request to think": ("Which?\nA: Let's think.", ["x", "y"], "the question ends in"),
}


@pytest.mark.parametrize(("question", "choices", "what"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_column_that_holds_a_prompt_is_refused_once_a_document_is_there(question, choices, what):
    found = problem(question, choices)
    assert found is not None
    assert found.startswith(what)
    config = _config({"question": question, "choices": choices, "answer": 0}, "t@mcqa", doc_to_text="question")
    with pytest.raises(ConfigError, match="a format would wrap a prompt twice: "):
        Task.from_config(config).build_all_requests()


def test_a_bare_question_is_no_problem():
    assert problem("Which of A. and B. is it?\nThink of the answer.", ["x", "y"]) is None


def _config(row, name, **fields):
    mapping = {
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "output_type": "multiple_choice",
        "custom_dataset": lambda **_: {"test": [row]},
    }
    return TaskConfig(task=name, test_split="test", **{**mapping, **fields})


@pytest.mark.parametrize("name", ["mcqa", "cloze", "hybrid", "generate", "cot", "bpb"])
def test_a_prompt_that_code_writes_is_taken_apart(name):
    row = {"question": "2 + 2?", "choices": ["3", "4"], "answer": "B"}

    def text(doc):
        lines = [f"{label}. {choice}" for label, choice in zip("AB", doc["choices"], strict=True)]
        return "\n".join([f"Question: {doc['question']}", *lines, "Answer:"])

    made = _config(row, f"t@{name}", doc_to_text=text, doc_to_choice=["A", "B"])
    wanted = _config(row, "t", doc_to_text="question", formats=name)
    requests = [[one.request for one in Task.from_config(c).build_all_requests()] for c in (made, wanted)]
    assert requests[0] == requests[1]
    assert Task.from_config(made).doc_to_target(row) == Task.from_config(wanted).doc_to_target(row)


def test_code_that_gives_an_index_is_refused():
    row = {"choices": ["The trophy", "The suitcase"], "answer": "is big"}
    with pytest.raises(DataError, match="doc_to_text gives 1, not a question"):
        Task.from_config(_config(row, "t@mcqa", doc_to_text=lambda doc: 1)).build_all_requests()


def test_digits_of_a_template_count_from_zero_with_and_without_a_format():
    row = {"question": "Which?", "choices": ["x", "y", "z"], "answer": "2"}
    for name in ("t", "t@mcqa", "t@cloze"):
        task = Task.from_config(_config(row, name, doc_to_text="question", doc_to_target="{{answer}}"))
        assert task.form.renderer.gold(row) == (2,)


def test_choices_whose_right_one_has_a_fixed_place_are_spread_where_they_are_shown():
    rows = [{"question": f"Question {n}?", "choices": ["right", "wrong", "worse"]} for n in range(40)]
    fields = {"doc_to_text": "question", "doc_to_target": 0, "custom_dataset": lambda **_: {"test": rows}}
    shown = Task.from_config(_config(rows[0], "t@mcqa", **fields))
    hidden = Task.from_config(_config(rows[0], "t@cloze", **fields))
    places = [shown.form.renderer.gold(row)[0] for row in rows]
    assert set(places) == {0, 1, 2}
    assert all(f"{'ABC'[place]}. right" in shown.doc_to_text(row) for place, row in zip(places, rows, strict=True))
    assert {hidden.form.renderer.gold(row) for row in rows} == {(0,)}


def test_the_last_line_of_a_worked_solution_is_the_answer_of_cot():
    row = {"question": "6 * 7?", "answer": "6 * 7 is <<6*7=42>>42.\n#### 42"}
    config = _config(row, "t@cot", doc_to_text="Question: {{question}}\nAnswer:", doc_to_choice=None,
                     doc_to_target="{{answer}}", output_type="generate_until")  # fmt: skip
    results = evaluate(model="dummy", model_args={"text": "So the final answer is 42."}, tasks=[config])
    assert results["t@cot"]["exact_match,none"] == 1.0


@pytest.mark.parametrize("shots", [0, 1])
def test_choices_that_only_a_prompt_by_code_shows_are_read_where_a_format_needs_them(shots):
    rows = [{"question": f"{n} + 1?", "options": [str(n), str(n + 1), "none"], "answer": "B"} for n in (4, 7)]

    def text(doc):
        lines = [f"{label}. {choice}" for label, choice in zip("ABC", doc["options"], strict=True)]
        return "\n".join(["Question:", doc["question"], "Options:", *lines, "Answer: Let's think step by step."])

    config = TaskConfig(
        task="t@mcqa",
        test_split="test",
        fewshot_split="train",
        num_fewshot=shots,
        custom_dataset=lambda **_: {"test": rows[:1], "train": rows[1:]},
        doc_to_text=text,
        doc_to_target="answer",
        fewshot_config={"doc_to_text": text, "doc_to_target": lambda doc: "A step. The answer is (B)."},
    )
    requests: list[Any] = [one.request for one in Task.from_config(config).build_all_requests()]
    shot = "Question: 7 + 1?\nA. 7\nB. 8\nC. none\nAnswer: B\n\n" * shots
    assert {one.context for one in requests} == {f"{shot}Question: 4 + 1?\nA. 4\nB. 5\nC. none\nAnswer:"}
    assert [one.continuation for one in requests] == [" A", " B", " C"]


def test_a_prompt_by_code_that_shows_no_choices_is_refused_where_a_format_needs_them():
    row = {"question": "6 * 7?", "answer": "42"}
    config = _config(row, "t@mcqa", doc_to_text=lambda doc: doc["question"], doc_to_choice=None)
    with pytest.raises(DataError, match="has no doc_to_choice, and its prompt shows no choices for certain"):
        Task.from_config(config).build_all_requests()


words = st.text(alphabet="xyAB1.:() \n", min_size=1, max_size=14).map(str.strip).filter(bool)


@given(question=words, choices=st.lists(words, min_size=2, max_size=4, unique=True), texts=st.booleans())
def test_a_prompt_is_read_right_or_not_at_all(question, choices, texts):
    labels = list("ABCD"[: len(choices)])
    lines = [f"{label}. {choice}" for label, choice in zip(labels, choices, strict=True)]
    prompt = "\n".join([f"Question: {question}", *lines, "Answer:"])
    doc = {"question": question, "options": choices}
    try:
        found = read_prompt(prompt, choices if texts else labels, doc)
    except DataError:
        return
    if not texts:
        assert list(found.choices) == choices
        assert found.question in (question, f"Question: {question}")  # a label before one letter is not taken off
