"""The difference of two forms: complete, to the byte, and in sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform.cli.main import main
from multiform.forms import Task
from multiform.forms.difference import Edit, compare_forms, text_edits
from multiform.forms.form import Form
from multiform.tasks.manager import TaskManager

FORMATS = ("mcqa", "cloze", "hybrid", "generate", "cot")
AXES = ("", "[labels=roman]", "[wrap=(x)]", "[labels=numbers,wrap=(x)]")
_LABELS = [name + axes for name in FORMATS for axes in (AXES if name in ("mcqa", "hybrid") else ("",))]


def form_of(label: str, shots: int = 0) -> Form:
    config = TaskManager().load(f"quiz@{label}")[0]
    return Task.from_config(config.replace(num_fewshot=shots)).form


def apply_edits(text: str, edits: Sequence[Edit[str]]) -> str:
    """The text with the edits made."""
    content = text.encode("utf-8", "surrogatepass")
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        removed, added = (part.encode("utf-8", "surrogatepass") for part in (edit.removed, edit.added))
        assert content[edit.start : edit.start + len(removed)] == removed
        content = content[: edit.start] + added + content[edit.start + len(removed) :]
    return content.decode("utf-8", "surrogatepass")


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(_LABELS), st.sampled_from(_LABELS), st.integers(0, 2), st.integers(0, 2), st.integers(0, 5))
def test_the_listed_differences_applied_to_one_prompt_give_the_other(
    first: str, second: str, shots: int, other_shots: int, doc_id: int
) -> None:
    difference = compare_forms(form_of(first, shots), form_of(second, other_shots), doc_id)
    assert apply_edits(difference.prompts[0], difference.edits) == difference.prompts[1]
    assert bool(difference.edits) == (difference.prompts[0] != difference.prompts[1])


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_edits_are_complete_for_any_text(first: str, second: str) -> None:
    assert apply_edits(first, text_edits(first, second)) == second


def test_a_form_does_not_differ_from_itself() -> None:
    difference = compare_forms(form_of("mcqa", 2), form_of("mcqa", 2))
    assert difference.sentences() == []


def test_every_setting_has_a_sentence() -> None:
    sentences = compare_forms(form_of("mcqa"), form_of("generate", 2)).sentences()
    assert "number of few-shot examples: 0 became 2." in sentences
    assert "what is scored: 'the likelihood of each choice' became 'a completion'." in sentences
    assert any(sentence.startswith("metric: ") for sentence in sentences)


def test_values_of_documents_are_named_by_their_column() -> None:
    """And the layout is compared without examples, where only one form has some."""
    for shots in (0, 2):
        sentences = compare_forms(form_of("mcqa", 2), form_of("cloze", shots)).sentences()
        expected = "The prompt lacks 'A. {choices.0}\\nB. {choices.1}\\nC. {choices.2}\\nD. {choices.3}\\n'."
        assert expected in sentences


def test_the_examples_are_those_that_a_run_draws() -> None:
    form = form_of("mcqa", 2)
    in_run = [form.sample(doc_id, doc).prompt for doc_id, doc in form.docs(limit=4)]
    assert compare_forms(form_of("mcqa", 2), form_of("cloze", 2), 3).prompts[0] == in_run[3]


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@mcqa", "quiz@mcqa[wrap=(x)]", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["forms"] == ["quiz@mcqa", "quiz@mcqa[wrap=(x)]"]
    assert printed["edits"]
    assert printed["sentences"]


def test_the_command_refuses_names_of_several_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@mcqa+cloze", "quiz@mcqa"]) == 2
    assert "it stands for 2 forms; name one of quiz@mcqa, quiz@cloze" in capsys.readouterr().err
