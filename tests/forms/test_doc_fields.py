"""Fields read out of documents: what a template spells out, and what columns and functions give."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import DataError, TaskConfig
from multiform.forms.doc_fields import DocFields, FieldReader, FieldSet
from multiform.forms.form import Form

CHOICES = ["1", "2", "3"]


def target(spec: Any, doc: dict[str, Any], choices: Any = None) -> Any:
    config = TaskConfig(task="t", output_type="multiple_choice", doc_to_target=spec, doc_to_choice=choices)
    return DocFields(doc, FieldReader(config), FieldSet.of_docs(Form(config))).target


def given(doc: dict[str, Any]) -> Any:
    return doc["x"]


@pytest.mark.parametrize("spec", ["x", given])
@pytest.mark.parametrize("value", ["[1,4]", "['a', 'b']", "07", "text"])
def test_what_a_column_or_function_gives_is_not_read_as_anything_else(spec, value):
    assert target(spec, {"x": value}) == value


@pytest.mark.parametrize(("value", "expected"), [("[1,4]", [1, 4]), ("['a', 'b']", ["a", "b"]), ("[a]", "[a]")])
def test_a_list_that_a_template_spells_out_is_a_list(value, expected):
    assert target("{{x}}", {"x": value}) == expected


def test_digits_of_a_template_are_an_index_where_there_are_choices():
    assert target("{{x}}", {"x": "2"}, CHOICES) == 2
    assert target("{{x}}", {"x": "2"}) == "2"


@pytest.mark.parametrize("spec", ["x", "{{x}}"])
@pytest.mark.parametrize("value", ["\u00b2", "9" * 5000])
def test_digits_that_are_no_number_are_text(spec, value):
    assert target(spec, {"x": value}, CHOICES) == value


@pytest.mark.parametrize("value", ["\u00b2", "9" * 5000])
def test_a_question_of_digits_that_are_no_number_is_text(value):
    config = TaskConfig(task="t", output_type="multiple_choice", doc_to_text="{{x}}", doc_to_choice=CHOICES)
    assert DocFields({"x": value}, FieldReader(config), FieldSet.of_docs(Form(config))).question == value


@pytest.mark.parametrize("spec", ["x", given])
def test_digits_of_a_column_or_function_are_a_choice_before_they_are_an_index(spec):
    assert target(spec, {"x": "2"}, CHOICES) == "2"
    assert target(spec, {"x": "0"}, CHOICES) == 0


def test_a_word_that_is_no_column_is_an_answer_where_it_is_a_choice():
    assert target("yes", {"x": 1}, ["yes", "no"]) == "yes"
    assert target("x", {"x": 1}, ["x", "y"]) == 1
    with pytest.raises(DataError, match="no column 'yess'"):
        target("yess", {"x": 1}, ["yes", "no"])


def test_a_word_that_is_no_column_is_an_answer_where_code_scores():
    config = TaskConfig(task="t", doc_to_target="all", process_results=lambda doc, results: {})
    assert DocFields({"x": 1}, FieldReader(config), FieldSet.of_docs(Form(config))).target == "all"
