"""Warnings about forms that are not meant for the kind of model that is run."""

from __future__ import annotations

import pytest

from multiform import Model
from multiform.forms import Task
from multiform.lint.forms import model_findings
from multiform.tasks.manager import TaskManager

THINKING = "{% if enable_thinking %}<think>{% endif %}"


class Templated(Model):
    """A model with this chat template, or with none."""

    name = identity = "templated"

    def __init__(self, template: str | None, variant: str = "") -> None:
        self.template = template
        self.variant = variant

    def loglikelihood(self, requests): ...

    def loglikelihood_rolling(self, requests): ...

    def generate(self, requests): ...

    def chat_template_text(self) -> str | None:
        return self.template

    def chat_template_name(self) -> str:
        return self.name + self.variant

    def tokenizer_info(self):
        return {"max_length": 2048}


def codes(model, label, *, chat):
    [config] = TaskManager().load(f"quiz@{label}")
    form = Task.from_config(config).form
    return [finding.code for finding in model_findings(model, [form], apply_chat_template=chat)]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("generate", ["prefilled_thought", "little_room_to_think"]),
        ("cot", ["little_room_to_think"]),
        ("mcq_cot", []),
        ("mcqa", []),
    ],
)
def test_a_thinking_model_needs_room_and_no_beginning_of_its_answer(label, expected):
    assert codes(Templated(THINKING), label, chat=True) == expected


def test_thinking_that_is_switched_off_needs_no_room():
    assert codes(Templated(THINKING, ' {"enable_thinking": false}'), "generate", chat=True) == []


def test_a_chat_model_without_its_template_is_named():
    assert codes(Templated(THINKING), "mcqa", chat=False) == ["chat_template_unused"]


def test_instructions_to_a_model_without_a_template_are_named():
    assert codes(Templated(None), "generate", chat=False) == ["instructed_base_model"]
    assert codes(Templated(None), "cloze", chat=False) == []
