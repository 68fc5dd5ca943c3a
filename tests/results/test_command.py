"""The command that a report gives for repeating a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, TaskManager, evaluate, read_results
from multiform.cli.main import main, parser
from multiform.results.provenance import command
from multiform.run.options import OPTIONS

RUNS: dict[str, dict[str, Any]] = {
    "variations": {"tasks": "quiz@mcqa~3", "num_fewshot": 1, "seeds": (5, 1, 1, 1)},
    "rotations": {"tasks": ["quiz@mcqa"], "choice_order": "cyclic"},
    "one_variation": {"tasks": ["quiz@mcqa[labels=roman,wrap=(x)]", "quiz@cloze"]},
    "draws": {"tasks": "quiz@mcqa", "fewshot_draws": 2, "num_fewshot": 2},
    "prompt": {
        "tasks": "quiz@cot",
        "system_instruction": 'It\'s "$5"; be good.',
        "perturbation": {"type": "uppercase"},
        "gen_kwargs": {"max_gen_toks": 9, "until": ["a,b", "c"]},
    },
    "stopped": {"tasks": "quiz@mcqa+cloze", "until_ci": 0.3},
    "samples": {"tasks": "quiz@mcqa", "samples": {"quiz": [3, 5]}, "limit": None},
}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("protocol", "olmes", "--protocol olmes"),
        ("thinking_budget", [0, 16], "--thinking_budget 0,16"),
        ("languages", ["de", "hi"], "--languages de,hi"),
        ("imports", ["a.py", "b.py"], "--import a.py --import b.py"),
        ("dataset_mirror", ["a", "b"], "--dataset_mirror a --dataset_mirror b"),
    ],
)
def test_the_command_has_recorded_options_as_their_flags_take_them(option: str, value: Any, words: str) -> None:
    assert OPTIONS[option].recorded
    run = {"model": "dummy", "arguments": {"tasks": ["quiz"], option: value}}
    written = command(Results(forms=[], run=run, provenance={"multiform_version": "1"})) or ""
    assert written.endswith(words)
    assert getattr(parser("run").parse_args(shlex.split(written)[1:]), option) == value


@pytest.mark.parametrize("name", RUNS)
def test_the_command_gives_the_prompts_and_scores_again(name: str, tmp_path: Path) -> None:
    run = {"limit": 6, "model": "dummy", "progress": False, "use_cache": False, **RUNS[name]}
    evaluate(output_path=tmp_path / "first", log_samples=True, **run)
    first = read_results(tmp_path / "first")
    words = shlex.split(command(first) or "")
    assert main([*words[1:], "--no_cache", "--output_path", str(tmp_path / "again"), "--log_samples"]) == 0
    again = read_results(tmp_path / "again")
    assert [form.name for form in again.forms] == [form.name for form in first.forms]
    for form, other in zip(first.forms, again.forms, strict=True):
        assert form.estimates == other.estimates
        assert [sample.sample.prompt for sample in form.samples] == [sample.sample.prompt for sample in other.samples]


def test_tasks_that_were_not_named_have_no_command() -> None:
    configs = TaskManager().load("quiz@mcqa")
    assert command(evaluate(model="dummy", tasks=configs, limit=4, progress=False, use_cache=False)) is None
