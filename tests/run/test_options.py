"""RunOptions: what follows from its fields."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import pytest

from multiform import evaluate
from multiform.cli.main import parser
from multiform.errors import UsageError
from multiform.run import options as options_module
from multiform.run.options import OPTION_DEFAULTS, OPTIONS, RunOptions, described_options, option
from multiform.run.values import count


def flags_of(command: str) -> dict[str, argparse.Action]:
    """The flags of a command, by the options that they set."""
    [commands] = [action for action in parser(command)._actions if action.dest == "command"]
    assert isinstance(commands.choices, dict)
    return {action.dest: action for action in commands.choices[command]._actions if action.option_strings}


def test_the_keywords_of_evaluate_are_the_fields():
    parameters = inspect.signature(evaluate).parameters
    assert list(parameters) == list(RunOptions.model_fields)
    assert {name: each.default for name, each in parameters.items() if name != "tasks"} == OPTION_DEFAULTS
    assert {each.kind for each in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_a_keyword_that_is_no_field_is_a_type_error_as_of_any_function():
    with pytest.raises(TypeError, match=r"^evaluate\(\): .* 'limt'; did you mean 'limit'\?$"):
        evaluate(tasks="quiz", limt=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing a required argument: 'tasks'"):
        evaluate()  # type: ignore[call-arg]


def test_every_field_is_a_flag_of_run_but_objects():
    flags = flags_of("run")
    assert [name for name in OPTIONS if name not in flags] == ["track", "progress"]


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ("tasks", "model", "track", "progress")])
def test_a_flag_has_the_default_of_its_field(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MULTIFORM_DATASET_MIRROR", raising=False)
    assert flags_of("run")[name].default == OPTION_DEFAULTS[name]


@pytest.mark.parametrize("command", ["show", "lint", "validate"])
def test_commands_that_render_prompts_have_all_flags_about_prompts(command: str):
    prompts = {name for name, option in OPTIONS.items() if option.group == "prompts"}
    assert prompts - set(flags_of(command)) == set()


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.setting])
def test_a_setting_of_forms_is_one(name: str):
    assert hasattr(RunOptions(tasks="quiz").settings, name)


def test_a_new_field_is_a_flag_that_is_read_and_checked(monkeypatch: pytest.MonkeyPatch):
    class MoreOptions(RunOptions):
        colours: int | None = option("how many colours", count(1), group="output", short="-k")

    monkeypatch.setattr(options_module, "OPTIONS", described_options(MoreOptions))
    flag: Any = flags_of("run")["colours"]
    assert (flag.option_strings, flag.metavar, flag.help) == (["--colours", "-k"], "N", "how many colours")
    assert flag.type("3") == 3
    with pytest.raises(UsageError, match="--colours: expected a whole number of 1 or more, got 'red'"):
        flag.type("red")
    with pytest.raises(UsageError, match="colours: expected a whole number of 1 or more, got 'red'"):
        MoreOptions(tasks="quiz", colours="red")  # type: ignore[arg-type]
