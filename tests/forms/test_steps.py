"""From one form to another, one change at a time: every step can be run, and the last one is the second form."""

from __future__ import annotations

from itertools import permutations

import pytest

from multiform.errors import UsageError
from multiform.forms import Form, Task
from multiform.forms.difference import compare_forms
from multiform.forms.steps import _Parts, steps_between
from multiform.tasks.manager import TaskManager
from tests.forms.test_difference import apply_edits
from tests.tasks.test_protocols import FORMS, form_of, has_rows_by_key

LABELS = ("mcqa", "cloze", "hybrid", "generate", "mcqa[labels=roman,wrap=(x)]", "mcqa[order=reverse]")


def quiz(label: str, shots: int = 2) -> Form:
    config = TaskManager().load(f"quiz@{label}")[0]
    return Task.from_config(config.replace(num_fewshot=shots)).form


def protocol_form(name: str) -> Form:
    form = form_of(name)
    return Task.from_config(form.config.replace(num_fewshot=0)).form if has_rows_by_key(name) else form


def requests(form: Form) -> list[object]:
    return [instance.request for doc_id, doc in form.docs(limit=2) for instance in form.sample(doc_id, doc).instances]


def of_one_task() -> list[tuple[str, str]]:
    return [pair for pair in permutations(FORMS, 2) if pair[0].partition("@")[0] == pair[1].partition("@")[0]]


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), of_one_task())
def test_every_pair_of_protocols_of_a_benchmark_has_a_complete_difference(first: str, second: str) -> None:
    """The listed edits give the second prompt to the byte, and the changes of the steps give the second form."""
    before, after = protocol_form(first), protocol_form(second)
    difference = compare_forms(before, after)
    assert apply_edits(difference.prompts[0], difference.edits) == difference.prompts[1]
    assert difference.sentences()
    steps = steps_between(before, after)
    assert steps[-1].form is after
    for form in (before, after):
        rebuilt = _Parts.of(form).config(form.task_name, form.name)
        assert requests(Task.from_config(rebuilt).form) == requests(form)


@pytest.mark.parametrize(("first", "second"), list(permutations(LABELS, 2)))
def test_every_step_between_formats_is_a_form_of_its_own(first: str, second: str) -> None:
    before, after = quiz(first), quiz(second)
    steps = steps_between(before, after)
    names = [before.name, *(step.form.name for step in steps)]
    assert len(set(names)) == len(names)
    assert steps[-1].form is after
    assert "everything else" not in [step.what for step in steps]
    assert requests(Task.from_config(_Parts.of(before).config("quiz", "x")).form) == requests(before)


def test_a_step_makes_one_change() -> None:
    steps = steps_between(quiz("mcqa"), quiz("generate"))
    assert [step.what for step in steps] == [
        "instruction",
        "answer prompt",
        "gen prefix",
        "target delimiter",
        "what is scored",
    ]
    instructed, asked = (step.form.sample(0, step.form.eval_docs[0]).prompt for step in steps[:2])
    assert instructed.startswith("Given the following question")
    assert instructed.endswith("Answer:")
    assert asked.endswith("is one of A, B, C or D.")


def test_a_finished_prompt_gets_the_layout_of_a_format_before_its_scoring() -> None:
    layout, scored = steps_between(protocol_form("mmlu_anatomy@helm"), protocol_form("mmlu_anatomy@olmes-mc"))[:2]
    assert (layout.what, scored.what) == ("question and layout", "what is scored")
    assert layout.form.output_type == "generate_until"
    assert "\n A. Water" in layout.form.sample(0, layout.form.eval_docs[0]).prompt


def test_forms_of_two_tasks_have_no_steps() -> None:
    with pytest.raises(UsageError, match="not of one task"):
        steps_between(quiz("mcqa"), protocol_form("mmlu_anatomy@helm"))
