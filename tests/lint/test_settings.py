"""Checks of what a run does with its tasks."""

from __future__ import annotations

import logging

import pytest

from multiform import evaluate
from multiform.models.dummy import DummyModel


class ChatModel(DummyModel):
    """A model with a chat template."""

    name = "chatty"

    def chat_template_text(self) -> str:
        return "{% for message in messages %}...{% endfor %}"


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [record.getMessage() for record in records]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What is logged, also where the command line has run before and keeps it to itself."""
    monkeypatch.setattr(logging.getLogger("multiform"), "propagate", True)
    return caplog


def test_a_chat_model_without_its_chat_template_is_a_warning(log: pytest.LogCaptureFixture):
    evaluate(tasks="quiz@mcqa+cloze", model=ChatModel(), limit=2)
    [line] = warned(log)
    assert line.startswith(
        "model 'chatty': it has a chat template, and the prompts are written without it; add --apply"
    )


@pytest.mark.parametrize(("model", "chat"), [(ChatModel(), True), (DummyModel(), False)], ids=["with_it", "has_none"])
def test_a_model_that_is_asked_as_it_should_be_is_none(log: pytest.LogCaptureFixture, model: DummyModel, chat: bool):
    evaluate(tasks="quiz@mcqa", model=model, limit=2, apply_chat_template=chat)
    assert warned(log) == []


def test_a_dataset_of_the_hub_without_a_fixed_revision_is_said(tmp_path, monkeypatch):
    from multiform import Task, TaskConfig
    from multiform.lint.forms import lint_form

    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "mirror" / "org" / "set" / "default"
    rows.mkdir(parents=True)
    (rows / "test.jsonl").write_text('{"q": "Why?", "a": "So."}\n', encoding="utf-8")

    def levels(**kwargs: str) -> list[tuple[str, str]]:
        keys = {"task": "t", "dataset_path": "org/set", "test_split": "test", "doc_to_text": "q", "doc_to_target": "a"}
        config = TaskConfig.from_dict({**keys, "output_type": "generate_until", "dataset_kwargs": kwargs})
        task = Task.from_config(config, dataset_mirror=tmp_path / "mirror")
        return [(finding.code, finding.level) for finding in lint_form(task.form, task.form.docs()).findings]

    assert levels(revision="main") == levels() == [("unpinned_revision", "info")]
    assert levels(revision="0123abc") == []
