"""The formats outside of ``@all``: `mcq_cot`, and the controls `open` and `blind`."""

from __future__ import annotations

import pytest

from multiform import ConfigError, UsageError, evaluate
from multiform.formats.base import formats
from multiform.formats.compile import FieldMapping
from multiform.formats.select import supported_formats
from multiform.results.read import read_results
from tests.formats.test_builtin import make_task, prompt_of, requests_of

RATIONALE = {"question": "Q2?", "choices": ["x", "y", "z"], "answer": 2, "why": "It is the last one."}


def test_mcq_cot_shows_choices_and_asks_for_reasons_and_a_label():
    assert prompt_of("mcq_cot") == (
        "Given the following question and 3 candidate answers (A, B and C), reason step by step to choose the best "
        'answer.\nQuestion: Q1?\nA. x\nB. y\nC. z\nYour response should end with "The best answer is [answer_letter]" '
        "where the [answer_letter] is one of A, B or C."
    )


def test_mcq_cot_may_fill_the_context_and_begins_no_answer():
    [request] = requests_of("mcq_cot")
    assert request.gen_kwargs["max_gen_toks"] == "context"
    assert "\n\n" not in request.gen_kwargs["until"]
    assert make_task("mcq_cot").config.gen_prefix is None


def test_an_example_of_mcq_cot_has_its_rationale():
    prompt = prompt_of("mcq_cot", shots=(RATIONALE,), num_fewshot=1, doc_to_rationale="why")
    assert "one of A, B or C.\nIt is the last one.\nThe best answer is C\n\n" in prompt


def test_open_shows_no_choices_and_is_right_with_the_text_of_the_choice():
    [request] = requests_of("open")
    assert "y" not in request.context.partition("Question:")[2]
    sample = make_task("open").form.sample(0, {"question": "Q1?", "choices": ["x", "y"], "answer": 1})
    assert sample.references == ("y",)


def test_blind_has_the_choices_without_the_question_and_what_it_is_about():
    prompt = prompt_of("blind", doc_to_context="A passage.", num_fewshot=1)
    assert prompt == "A. x\nB. y\nC. z\nAnswer: C\n\nA. x\nB. y\nC. z\nAnswer:"


@pytest.mark.parametrize("fields", [{"question_prefix": "Q: "}, {"question_suffix": "?"}])
def test_blind_refuses_words_around_a_question_that_it_does_not_show(fields):
    with pytest.raises(ConfigError, match="blind shows no question"):
        make_task({"type": "blind", **fields})


def test_all_has_the_formats_that_it_had():
    mapping = FieldMapping("question", "choices", "answer")
    labels = supported_formats(None, mapping)
    assert [label for label in labels if label in ("mcqa", "cloze", "hybrid", "generate", "cot", "bpb")] == [
        "mcqa", "cloze", "hybrid", "generate", "cot", "bpb",
    ]  # fmt: skip
    assert not {"mcq_cot", "open", "blind"} & set(labels)
    assert "blind" in supported_formats({"mcqa": None, "blind": None}, mapping)


def test_every_built_in_format_says_for_which_models_it_is_meant():
    meant = {name: formats.get(name).meant_for for name in ("cloze", "generate", "cot", "mcq_cot", "open", "bpb")}
    assert meant == dict.fromkeys(("generate", "cot", "mcq_cot", "open"), "chat") | dict.fromkeys(
        ("cloze", "bpb"), "base"
    )


def test_controls_are_shown_and_not_compared(tmp_path):
    results = evaluate(
        model="dummy", tasks=["quiz@mcqa", "quiz@cloze", "quiz@blind"], limit=12, use_cache=False, output_path=tmp_path
    )
    assert [form.name for form in results.forms if form.control] == ["quiz@blind"]
    assert all("quiz@blind" not in comparison.forms for comparison in results.comparisons)
    assert results.comparisons
    assert "quiz@blind: a control, outside of comparisons: it scores" in str(results)
    again = read_results(next(tmp_path.rglob("results_*.json")))
    assert [form.name for form in again.forms if form.control] == ["quiz@blind"]


def test_a_budget_does_not_search_among_controls():
    with pytest.raises(UsageError, match="'quiz@blind' is a control"):
        evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@blind"], budget=100, use_cache=False)
