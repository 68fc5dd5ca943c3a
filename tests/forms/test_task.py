"""Task: a façade over a form, whose settings replace the form."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, Form, MultipleChoiceTask, RunSettings, Task


def test_a_task_has_the_form_of_its_configuration(config):
    task = Task.from_config(config())
    assert type(task) is MultipleChoiceTask
    assert isinstance(task.form, Form)
    assert task.config is task.form.config


def test_a_setting_replaces_the_form(config):
    task = Task.from_config(config())
    before = task.form
    task.set_num_fewshot(2)
    task.set_fewshot_seed(7)
    task.override_metric("acc_norm")
    assert (before.num_fewshot, task.num_fewshot) == (0, 2)
    assert (before.fewshot_seed, task.form.fewshot_seed) == (1234, 7)
    assert (list(before.higher_is_better), list(task.higher_is_better())) == (["acc", "acc_norm"], ["acc_norm"])


def test_the_settings_of_a_run_give_another_task(config):
    task = Task.from_config(config())
    task.build_all_requests(limit=1)
    other = task.under(RunSettings(num_fewshot=1))
    assert (task.num_fewshot, other.num_fewshot) == (0, 1)
    assert (len(task.instances), other.instances) == (2, [])


class Counting(MultipleChoiceTask):
    """Counts the questions that its object was asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.asked: list[str] = []
        super().__init__(*args, **kwargs)

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        self.asked.append(doc["question"])
        return super().doc_to_text(doc, doc_to_text)


def test_hooks_are_those_of_the_object_whose_form_it_is(config):
    task = Counting(config())
    assert task.form.task is task
    other = task.under(RunSettings(limit=1))
    assert other.form.task is other
    other.form.sample(0, other.eval_docs[0])
    assert set(task.asked) == {"Can fish fly?"}


def test_a_task_without_a_class_of_its_own_has_no_hooks(config):
    form = Task.from_config(config()).form
    assert (form.task, dict(form.hooks)) == (None, {})


@pytest.mark.parametrize("name", ["name", "num_fewshot", "under"])
def test_a_method_that_no_run_calls_is_refused_where_it_is_overridden(config, name):
    own = type("Own", (Task,), {name: property(lambda self: None), "__module__": "mine"})
    with pytest.raises(ConfigError, match=f"Own overrides {name}, which a run does not call"):
        own(config())


class Scoring(Task):
    """Calls what it overrides."""

    def sample(self, doc_id: int, doc: Any, chat_template: Any = None) -> Any:
        return super().sample(doc_id, {**doc, "question": "Why?"}, chat_template)

    def higher_is_better(self) -> dict[str, bool]:
        return {**super().higher_is_better(), "acc": False}

    def doc_to_decontamination_query(self, doc: Any) -> str:
        return super().doc_to_decontamination_query(doc).lower()


def test_the_form_calls_overrides_that_call_what_they_override(config):
    form = Scoring(config()).form
    assert form.sample(0, form.eval_docs[0]).prompt == "Why?"
    assert form.higher_is_better == {"acc": False, "acc_norm": True}
    assert form.decontamination_query(form.eval_docs[0]) == "can fish fly?"
