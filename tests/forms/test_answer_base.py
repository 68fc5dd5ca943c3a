"""Digits as answers: whether they count choices from 0 or from 1 is decided once for a task, and every form agrees."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from multiform import ConfigError, DataError, Task, TaskConfig, evaluate
from multiform.labels import digit_base

FORMATS = ["mcqa", "cloze", "generate", "bpb"]


def config(answers: list[Any], **changes: Any) -> dict[str, Any]:
    """A task with three choices x, y, z for each document."""
    rows = [{"q": f"Which {i}?", "c": ["x", "y", "z"], "a": answer} for i, answer in enumerate(answers)]
    fields = {"test_split": "test", "doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "a"}
    return {
        "task": "t",
        "custom_dataset": lambda **kwargs: {"test": rows},
        "output_type": "multiple_choice",
        **fields,
        **changes,
    }


def right_choices(answers: list[Any], format: str | None = None, **changes: Any) -> list[Any]:
    selection = {} if format is None else {"_formats_selection": format}
    task = Task.from_config({**config(answers, **changes), **selection})
    return [task.sample(i, doc).right_choices for i, doc in task.doc_iterator()]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("answers", "indexes"),
    [
        (["1", "2", "0"], [(1,), (2,), (0,)]),
        (["1", "2", "3"], [(0,), (1,), (2,)]),
        (["2", "1"], [(1,), (0,)]),
        (["1", "C", "0"], [(1,), (2,), (0,)]),
        ([["1", "2"], ["0"]], [(1, 2), (0,)]),
    ],
    ids=["a_zero", "the_number_of_choices", "neither", "letters_too", "lists"],
)
def test_the_data_decide_where_they_can_and_digits_count_from_1_otherwise(format, answers, indexes):
    assert right_choices(answers, format) == indexes


@pytest.mark.parametrize("format", [None, *FORMATS])
@pytest.mark.parametrize("answers", [["1", "2"], [1, 2]], ids=["text", "numbers"])
def test_what_the_task_says_counts_with_and_without_a_format(format, answers):
    assert right_choices(answers, format, answer_base=1) == [(0,), (1,)]
    assert right_choices(answers, format, answer_base=0) == [(1,), (2,)]


@pytest.mark.parametrize("target", ["{{a}}", "a"])
def test_without_a_format_digits_count_from_0_as_in_lm_eval(target):
    assert right_choices(["1", "2", "0"], doc_to_target=target) == [(1,), (2,), (0,)]
    assert right_choices(["1", "2"], doc_to_target=target) == [(1,), (2,)]


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_a_column_of_numbers_counts_from_0(format):
    assert right_choices([1, 2], format) == [(1,), (2,)]


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_a_template_counts_from_the_stated_base_too(format):
    assert right_choices(["1", "2"], format, doc_to_target="{{a}}", answer_base=1) == [(0,), (1,)]


def test_labels_beside_the_texts_decide():
    rows: list[Any] = [{"q": "Which?", "c": {"text": ["x", "y", "z"], "label": ["0", "1", "2"]}, "a": "1"}]
    changes = {"custom_dataset": lambda **kwargs: {"test": rows}, "doc_to_choice": "{{c.text}}"}
    assert right_choices([], "mcqa", **changes) == [(1,)]
    rows[0]["c"]["label"] = ["1", "2", "3"]
    assert right_choices([], "mcqa", **changes) == [(0,)]


def test_the_text_of_a_choice_is_no_number_of_one():
    assert digit_base("3", ["1", "2", "3"]) is None
    assert digit_base("0", ["0", "1"]) is None


def test_all_documents_decide_whatever_the_limit():
    task = Task.from_config({**config(["1", "2", "0"]), "_formats_selection": "mcqa"})
    assert task.sample(0, task.eval_docs[0]).gold == (1,)


def test_a_run_in_which_forms_disagree_is_refused_before_anything_is_asked():
    tasks = [TaskConfig.from_dict(config(["1", "2", "3"], _formats_selection=name)) for name in (None, "mcqa")]
    with pytest.raises(DataError, match=r"doc 0: two forms disagree .* choice 2 in 't' and choice 1 in 't@mcqa'"):
        evaluate(tasks=tasks, model="dummy")


@pytest.mark.parametrize("base", [0, 1])
def test_forms_agree_once_the_task_says_how_it_counts(base):
    names = (None, *FORMATS)
    answers = [str(base), str(base + 1)]
    tasks = [TaskConfig.from_dict(config(answers, answer_base=base, _formats_selection=name)) for name in names]
    results = evaluate(tasks=tasks, model="dummy")
    assert len(results.forms) == 5
    chosen = {form.name: [sample.sample.right_choices for sample in form.samples] for form in results.forms}
    assert set(map(str, chosen.values())) == {"[(0,), (1,)]"}


def test_digits_that_could_count_from_either_are_said(caplog):
    with caplog.at_level(logging.WARNING, logger="multiform"):
        evaluate(tasks=[TaskConfig.from_dict(config(["1", "2"], _formats_selection="mcqa"))], model="dummy")
    assert "no document shows whether they count from 0 or from 1" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="multiform"):
        evaluate(tasks=[TaskConfig.from_dict(config(["1", "3"], _formats_selection="mcqa"))], model="dummy")
    assert "count from" not in caplog.text


def test_other_bases_are_refused():
    with pytest.raises(ConfigError, match="answer_base: expected 0 or 1, got 2"):
        TaskConfig.from_dict(config(["1"], answer_base=2))


def test_the_compiled_template_says_the_base():
    template = TaskConfig.from_dict(config([], answer_base=0, _formats_selection="mcqa")).doc_to_target
    assert template == "{{ a|gold_index(c, 'letters', base=0) }}"
