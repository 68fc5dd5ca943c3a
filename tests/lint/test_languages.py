"""The note about English words around questions in another language."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import evaluate
from multiform.forms import Form
from multiform.lint.forms import language_findings
from multiform.tasks.manager import TaskManager


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("mgsm_de@cot", "select mgsm_de@cot:native"),
        ("global_mmlu_zh@mcqa[labels=roman]", "select global_mmlu_zh@mcqa:native[labels=roman]"),
    ],
)
def test_english_words_around_another_language_are_noted(spec: str, hint: str) -> None:
    (finding,) = language_findings(Form(TaskManager().load(spec)[0]))
    assert (finding.code, finding.level, finding.hint) == ("mixed_languages", "info", hint)


@pytest.mark.parametrize(
    "spec", ["mgsm_de@cot:native", "mgsm_de@cot:en", "mgsm_en@cot", "quiz@mcqa", "mgsm_de@lm-eval"]
)
def test_prompts_in_one_language_and_chosen_ones_are_not(spec: str) -> None:
    findings: Any = language_findings(Form(TaskManager().load(spec)[0]))
    assert findings == []


@pytest.mark.parametrize("spec", ["quiz@mcq_cot:de", "quiz@think:de", "quiz@open:fr"])
def test_an_instruction_without_a_translation_is_a_warning(spec: str) -> None:
    (finding,) = language_findings(Form(TaskManager().load(spec)[0]))
    assert (finding.code, finding.level) == ("mixed_languages", "warning")
    assert "its instruction is English" in finding.what


def test_a_run_warns_about_it(caplog: pytest.LogCaptureFixture) -> None:
    evaluate(model="dummy", tasks="quiz@mcq_cot:de", limit=2)
    assert "its instruction is English" in caplog.text


@pytest.mark.parametrize("spec", ["quiz@mcqa:de", "quiz@generate:hi", "quiz@cot:fr", "quiz@blind:de", "quiz@hybrid:ja"])
def test_formats_with_translated_instructions_are_not(spec: str) -> None:
    assert language_findings(Form(TaskManager().load(spec)[0])) == []
