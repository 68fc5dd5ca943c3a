"""The note about English words around questions in another language."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.forms import Form
from multiform.lint.forms import language_findings
from multiform.tasks import TaskManager


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
