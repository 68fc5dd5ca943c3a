"""Lint of lm-eval's own tasks finds what is there, and nothing in tasks that are as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.forms import RunSettings
from multiform.lint.forms import lint_form
from tools.parity import ours

pytestmark = pytest.mark.parity


def codes(folder: Path, mirror: Path, file: str) -> set[str]:
    """The codes of what is found in the first documents of a task, with three examples.

    None of lm-eval's tasks pins the revision of its dataset.
    """
    task = ours.load_task(folder / file, mirror).under(RunSettings(num_fewshot=3))
    found = {finding.code for finding in lint_form(task.form, task.form.docs(limit=20)).findings}
    assert "unpinned_revision" in found
    return found - {"unpinned_revision"}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("leaderboard/bbh_mc/boolean_expressions.yaml", {"glued_sections"}),
        ("mmlu/flan_cot_fewshot/mmlu_anatomy.yaml", {"glued_sections"}),
        ("lambada/lambada_openai.yaml", {"doubled_space", "shots_from_evaluated_split"}),
        ("mmlu/continuation/mmlu_business_ethics.yaml", {"duplicate_choices"}),
        ("bbh/cot_fewshot/reasoning_about_colored_objects.yaml", {"stop_in_answer", "stop_in_prompt"}),
        ("mmlu/default/mmlu_anatomy.yaml", set()),
        ("mmlu/generative/mmlu_anatomy.yaml", set()),
        ("arc/arc_easy.yaml", set()),
        ("gsm8k/gsm8k.yaml", set()),
        ("gsm8k/gsm8k-cot.yaml", set()),
    ],
)
def test_findings_of_tasks_that_were_looked_at(lm_eval_tasks: Path, mirror: Path, file: str, expected: set[str]):
    assert codes(lm_eval_tasks, mirror, file) == expected
