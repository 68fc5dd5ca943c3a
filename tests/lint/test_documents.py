"""Checks of documents."""

from __future__ import annotations

import time
from typing import Any

from multiform.forms import Form
from multiform.lint.documents import DocumentChecks
from multiform.lint.findings import Finding
from multiform.tasks.config import TaskConfig


def found(docs: list[dict[str, Any]], **fields: Any) -> list[Finding]:
    usual = {"output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "a"}
    checks = DocumentChecks(Form(TaskConfig(**{"task": "t", **usual, **fields})))
    for doc_id, doc in enumerate(docs):
        checks.see(doc_id, doc)
    return checks.findings()


def codes(docs: list[dict[str, Any]], level: str = "warning", **fields: Any) -> list[str]:
    return [finding.code for finding in found(docs, **fields) if finding.level == level]


def row(**columns: Any) -> dict[str, Any]:
    return {"q": "Why?", "c": ["x", "y"], "a": 0, **columns}


def test_a_finding_says_what_where_and_what_to_do():
    docs = [row(), row(q="How?", a="1"), row(q="When?", a="2")]
    [finding] = found(docs)
    assert (finding.code, finding.task, finding.where) == ("mixed_answers", "t", "t: doc_to_target")
    assert finding.what == "the answers in column 'a' are of mixed kinds: numbers and text"
    assert finding.example == "a: 0 in doc 0, '1' in doc 1"
    assert finding.hint.startswith("write all of them in one way")


def test_whole_and_other_numbers_are_one_kind_and_nulls_and_lists_none():
    assert codes([row(), row(q="2", a=1.0), row(q="3", a=None), row(q="4", a=[0, 1])]) == []
    assert codes([row(), row(q="2", a=True)]) == ["mixed_answers"]


def test_columns_that_a_template_reads_are_looked_at():
    docs = [row(), row(q="How?", a="1")]
    assert codes(docs, doc_to_target="{{ c[a] }}") == ["mixed_answers"]
    assert codes([row(), row(q="")], doc_to_text="Question: {{q}}\nAnswer:") == ["empty_question"]
    assert codes([row(), row(c=["x", "x"])], doc_to_choice="{{ c }}") == ["duplicate_choices"]


def test_a_question_is_empty_where_all_its_columns_are():
    docs = [row(passage="Long ago"), row(passage="Once", q=None), row(passage=" ", q="")]
    assert codes(docs, doc_to_text="{{passage}}\n{{q}}") == ["empty_question"]
    assert codes(docs[:2], doc_to_text="{{passage}}\n{{q}}") == []


def test_rows_repeat_where_all_that_is_read_is_equal():
    assert codes([row(id=1), row(id=2)]) == ["duplicate_rows"]
    assert codes([row(), row(a=1)]) == []
    assert codes([row(), row()], doc_to_image="image") == []


def test_labels_that_a_column_spells_in_another_order_are_found():
    docs = [row(q=f"{n}?", a=n % 3, label=["No", "yes", "maybe"][n % 3]) for n in range(6)]
    assert codes(docs, doc_to_choice=["yes", "no", "maybe"]) == ["label_order"]
    assert codes(docs, doc_to_choice=["no", "yes", "maybe"]) == []
    mixed = [row(q="1", a=0, label="no"), row(q="2", a=1, label="yes"), row(q="3", a=0, label="yes")]
    assert codes(mixed, doc_to_choice=["yes", "no"]) == []  # the column is about something else


def test_several_right_answers_and_smaller_editions_are_mentioned():
    assert codes([row(a=[0, 1])], level="info") == ["several_right"]
    assert codes([row(mini=1), row(q="2", mini=0)], level="info") == ["marked_subset"]
    assert codes([row(mini=0), row(q="2", mini="no")], level="info") == []


def test_functions_are_not_called():
    def fails(doc: Any) -> Any:
        raise AssertionError("called")

    assert codes([row(id=1), row(id=2)], doc_to_text=fails, doc_to_choice=fails, doc_to_target=fails) == []
    assert codes([row(id=1), row(id=1)], doc_to_text=fails) == ["duplicate_rows"]


def test_choices_that_cannot_be_read_are_left_to_the_rendering():
    assert codes([row(c=None), row(q="2", c=3), {"q": "3", "a": 0}, row(q="4", c=[["x"], ["x"]])]) == []


def test_thousands_of_documents_take_a_moment():
    docs = [row(q=f"Question {i}? " * 20, c={"text": [f"x{i}", "y", "z", "w"]}) for i in range(14_000)]
    began = time.process_time()
    assert codes(docs, doc_to_choice="{{c.text}}", doc_to_text="{{q}}\nAnswer:") == []
    assert time.process_time() - began < 2
