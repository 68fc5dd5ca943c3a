"""What each step from one form to another does to the score of a model."""

from __future__ import annotations

import json

import pytest

import multiform
from multiform.cli.main import main
from multiform.forms import Task
from multiform.forms.steps import steps_between
from multiform.results.run_comparison import step_table
from multiform.tasks.manager import TaskManager


def test_the_changes_of_the_steps_add_up() -> None:
    first, second = (Task.from_config(TaskManager().load(f"quiz@{label}")[0]).form for label in ("mcqa", "generate"))
    steps = steps_between(first, second)
    configs = [first.config, *(step.form.config for step in steps)]
    results = multiform.evaluate(model="dummy", tasks=configs, limit=30)
    table = step_table(
        {form.name: form for form in results.forms}, first.name, [(step.what, step.form.name) for step in steps]
    )
    changes = [effect.change for effect in (*table.effects, table.total) if effect.change is not None]
    *each, total = (change.difference.value for change in changes)
    assert sum(each) == pytest.approx(total)
    assert table.total.score.value == results["quiz@generate"]["exact_match,none"]
    assert len(changes) == len(steps) + 1
    assert all(change.paired and change.comparisons == len(table.effects) for change in changes[:-1])


def test_a_step_that_changes_neither_prompts_nor_scores_is_named_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@mcqa", "quiz@cloze", "--run", "dummy", "--limit", "20", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert [step["what"] for step in run["steps"]] == ["what is scored", "choice labels"]
    assert run["without_effect"] == ["metrics and extraction"]
    assert run["total"]["documents"] == 20
    assert run["steps"][0]["low"] < run["steps"][0]["change"] < run["steps"][0]["high"]


def test_the_command_prints_the_score_after_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@mcqa", "quiz@mcqa[wrap=(x)]", "--run", "dummy", "--limit", "20"]) == 0
    printed = capsys.readouterr().out
    assert "1. choice format" in printed
    assert "all steps together" in printed
    assert "* The prompt has" in printed


def test_scores_of_two_kinds_have_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@cloze", "quiz@bpb", "--run", "dummy", "--limit", "10"]) == 0
    assert "a score of another kind" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "5"], "--limit: nothing is run; add --run MODEL"),
        (["--run", "nosuch"], "--run: no model 'nosuch'"),
        (["--run", "dummy", "--model", "hf"], "the model is 'dummy' already"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "quiz@mcqa", "quiz@cloze", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.bundled
def test_tokens_are_those_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["diff", "quiz@mcqa", "quiz@mcqa[wrap=(x)]", "--model", "bundled", "--json"]
    assert main(arguments) == 0
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    assert tokens["numbers"][0] > 0
    assert {"start", "removed", "added"} == set(tokens["edits"][0])
