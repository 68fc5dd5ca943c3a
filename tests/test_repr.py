"""What a notebook shows of the objects that users hold: one line that says which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import multiform
from multiform import Results, RunSettings, Sample, Task, TaskConfig, TaskManager
from multiform.models.dummy import DummyModel


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_config(TaskManager().load("quiz@mcqa")[0])


@pytest.fixture(scope="module")
def results() -> Results:
    return multiform.evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@generate"], limit=4)


def test_a_config_shows_only_what_was_set() -> None:
    config = TaskConfig(task="sums", doc_to_text="{{a}} + {{b}} =", doc_to_target="sum", num_fewshot=3)
    shown = "TaskConfig(task='sums', doc_to_text='{{a}} + {{b}} =', doc_to_target='sum', num_fewshot=3)"
    assert repr(config) == shown


def test_a_config_shows_its_fields_as_the_task_gave_them_and_not_as_a_format_made_them() -> None:
    config = TaskConfig(task="t@mcqa", doc_to_text="question", doc_to_choice="options", doc_to_target="answer")
    assert repr(config) == (
        "TaskConfig(task='t@mcqa', doc_to_text='question', doc_to_choice='options', doc_to_target='answer')"
    )


def test_a_config_shows_functions_by_name_and_cuts_what_is_long() -> None:
    shown = repr(TaskConfig(task="t", description="Answer. " * 100, doc_to_text=len))
    assert "doc_to_text='builtins.len'" in shown
    assert "description='Answer. Answer. " in shown
    assert "…" in shown
    assert len(shown) < 120


def test_a_task_and_a_form_show_their_name_and_settings(task: Task) -> None:
    assert repr(task) == "<MultipleChoiceTask quiz@mcqa: multiple_choice, 0-shot>"
    chat = task.under(RunSettings(num_fewshot=3, apply_chat_template=True, limit=10))
    assert repr(chat.form) == "<Form quiz@mcqa: multiple_choice, 3-shot, chat template, limit 10>"


def test_a_subclass_shows_its_own_name(task: Task) -> None:
    class Quiz(multiform.MultipleChoiceTask):
        pass

    assert repr(Quiz(task.config)).startswith("<Quiz quiz@mcqa: ")


def test_a_sample_shows_the_end_of_its_prompt_and_what_is_right(task: Task) -> None:
    shown = repr(task.sample(0, task.eval_docs[0]))
    assert shown.startswith("<Sample of doc 0: 4 requests about '…")
    assert shown.endswith("Mercury\\nAnswer:', gold 3 ('D')>")


def test_a_sample_without_requests_shows_that_there_are_none() -> None:
    assert repr(Sample(doc_id=1, doc={}, target="yes")) == "<Sample of doc 1: 0 requests, gold 'yes'>"


def test_a_scored_sample_shows_prediction_gold_and_scores(results: Results) -> None:
    ranked, generated = (form.samples[0] for form in results.forms)
    assert repr(ranked) == "<ScoredSample of doc 0 by 'none': predicted 2 ('C'), gold 3 ('D'); acc 0.0, acc_norm 0.0>"
    assert repr(generated).startswith("<ScoredSample of doc 0 by 'none': ")
    assert "gold 'D'; exact_match " in repr(generated)


def test_the_result_of_a_form_shows_its_first_score(results: Results) -> None:
    assert repr(results.forms[0]) == "<FormResult of quiz@mcqa: acc 0.5000 ± 0.2887 (n=4)>"


def test_a_group_shows_its_first_members(tmp_path: Path) -> None:
    for number in range(5):
        text = f"task: part_{number}\noutput_type: loglikelihood_rolling\ndoc_to_target: text\n"
        (tmp_path / f"part_{number}.yaml").write_text(text)
    (tmp_path / "whole.yaml").write_text("group: whole\ntask: [part_0, part_1, part_2, part_3, part_4]\n")
    (group,) = TaskManager(tmp_path).tree("whole")
    assert repr(group) == "<Group whole: 5 members (part_0, part_1, part_2, ...)>"


def test_a_manager_shows_its_folders_without_reading_them(tmp_path: Path) -> None:
    manager = TaskManager(tmp_path, library=False)
    assert repr(manager) == f"<TaskManager of {tmp_path}>"
    assert "index" not in vars(manager)


def test_a_model_shows_its_name() -> None:
    assert repr(DummyModel(seed=3)) == "<DummyModel dummy>"


def test_every_repr_is_one_line(task: Task, results: Results) -> None:
    objects = [task, task.form, task.config, task.sample(0, task.eval_docs[0]), *results.forms, DummyModel()]
    assert [value for value in objects if "\n" in repr(value) or len(repr(value)) > 300] == []
