"""Renderer: from a document to its sample."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import DataError, Form, RunSettings, Task
from multiform.requests import LoglikelihoodRequest


def sample(form: Form, doc_id: int = 0) -> Any:
    return form.renderer.sample(doc_id, form.eval_docs[doc_id])


def test_a_document_is_rendered_with_choices_gold_and_requests(config):
    rendered = sample(Form(config()), 1)
    assert (rendered.choices, rendered.gold, rendered.target) == (("no", "yes"), (1,), 1)
    requests = [instance.request for instance in rendered.instances]
    assert [request.continuation for request in requests if isinstance(request, LoglikelihoodRequest)] == [
        " no",
        " yes",
    ]


def test_few_shot_examples_come_before_the_question(config):
    form = Form(config(description="Answer. "), RunSettings(num_fewshot=1))
    assert sample(form).prompt == "Answer. Is ice cold? yes\n\nCan fish fly?"


def test_a_known_request_is_not_rendered_again(config):
    form = Form(config())
    rendered = sample(form)
    assert form.renderer.with_requests(0, rendered.doc, rendered.instances) == rendered


def test_an_answer_that_is_no_choice_is_an_error_of_the_first_document(config):
    rows = [{"question": "Why?", "choices": ["no", "yes"], "answer": "perhaps"}] * 2
    form = Form(config(custom_dataset=lambda **_: {"test": rows}, fewshot_split=None, fewshot_config=None))
    with pytest.raises(DataError, match="doc 0"):
        sample(form)
    assert sample(form, 1).problem is not None
    assert [str(problem).count("it counts as wrong") for problem in form.renderer.problems] == [1]


def test_fields_without_hooks_are_those_of_the_configuration(config):
    class Upper(Task):
        def doc_to_choice(self, doc: Any, doc_to_choice: Any = None) -> Any:
            return [choice.upper() for choice in super().doc_to_choice(doc, doc_to_choice) or ()]

    form = Upper(config()).form
    assert form.renderer.fields(form.eval_docs[0]).choices == ["NO", "YES"]
    assert form.renderer.fields(form.eval_docs[0], hooks=False).choices == ["no", "yes"]


def test_the_question_is_looked_up_for_decontamination_unless_the_task_names_another_text(config):
    form, other = Form(config()), Form(config(doc_to_decontamination_query="{{choices[0]}}"))
    assert form.renderer.decontamination_query(form.eval_docs[0]) == "Can fish fly?"
    assert other.renderer.decontamination_query(other.eval_docs[0]) == "no"
