"""Command lines and configuration files that were written for lm-eval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiform.cli.main import parser
from multiform.models.registry import INSTEAD, models

RUN = ("--model", "dummy", "--tasks", "task.yaml")

#: Every flag of lm-eval 0.4.13's `run`, with its short form.
FLAGS = {
    "--config": "-C",
    "--tasks": "-t",
    "--model": "-M",
    "--model_args": "-a",
    "--apply_chat_template": None,
    "--limit": "-L",
    "--use_cache": "-c",
    "--num_fewshot": "-f",
    "--batch_size": "-b",
    "--max_batch_size": None,
    "--device": None,
    "--gen_kwargs": None,
    "--output_path": "-o",
    "--log_samples": "-s",
    "--samples": "-E",
    "--cache_requests": None,
    "--check_integrity": None,
    "--system_instruction": None,
    "--fewshot_as_multiturn": None,
    "--include_path": None,
    "--verbosity": "-v",
    "--write_out": "-w",
    "--show_config": None,
    "--wandb_args": None,
    "--wandb_config_args": None,
    "--trackio_args": None,
    "--hf_hub_log_args": None,
    "--predict_only": "-x",
    "--seed": None,
    "--trust_remote_code": None,
    "--confirm_run_unsafe_code": None,
    "--metadata": None,
}


def flags_of_run() -> dict[str, str | None]:
    """The flags of our `run`, each with its short form."""
    [commands] = [action for action in parser()._actions if action.dest == "command"]
    assert isinstance(commands.choices, dict)
    found: dict[str, str | None] = {}
    for action in commands.choices["run"]._actions:
        short = next((name for name in action.option_strings if not name.startswith("--")), None)
        found |= {name: short for name in action.option_strings if name.startswith("--")}
    return found


def config_of(folder: Any, *argv: str) -> dict[str, Any]:
    """What the results say that was run."""
    folder.task()
    ran = folder.run(*RUN, *argv, "--json")
    assert ran.code == 0, ran.err
    made: dict[str, Any] = ran.json()["config"]
    return made


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_of_lm_eval_is_there_with_its_short_form(flag):
    assert (flag, flags_of_run().get(flag, "missing")) == (flag, FLAGS[flag])


@pytest.mark.parity
def test_the_list_of_flags_is_that_of_lm_eval():
    pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install 'multiform[parity]'")
    from lm_eval._cli.harness import HarnessCLI

    [commands] = [action for action in HarnessCLI()._parser._actions if action.dest == "command"]
    theirs: dict[str, str | None] = {}
    for action in commands.choices["run"]._actions:
        short = next((name for name in action.option_strings if not name.startswith("--")), None)
        theirs |= {name: short for name in action.option_strings if name.startswith("--") and name != "--help"}
    assert theirs == FLAGS


def test_every_flag_is_on_the_page_about_them():
    page = Path(__file__).parent.parent.parent / "docs" / "flags.md"
    text = page.read_text(encoding="utf-8")
    assert [flag for flag in flags_of_run() if flag != "--help" and f"`{flag}`" not in text] == []


# Values


@pytest.mark.parametrize(
    "given",
    [
        ["seed=3,text=a"],
        ["seed=3", "text=a"],
        ['{"seed": 3, "text": "a"}'],
        ["seed=3,text='a'"],
        ["seed=1", "--model_args", "seed=3,text=a"],
    ],
)
def test_arguments_of_a_model_in_every_way_to_write_them(folder, given):
    assert config_of(folder, "--model_args", *given)["model_args"] == {"seed": 3, "text": "a"}


@pytest.mark.parametrize(
    "given",
    [
        ["temperature=0.5,until=['a', 'b']"],
        ["temperature=0.5", 'until=["a", "b"]'],
        ['{"temperature": 0.5, "until": ["a", "b"]}'],
        ["temperature=0.5", 'stop=["a", "b"]'],
    ],
)
def test_arguments_of_generation_in_every_way_to_write_them(folder, given):
    assert config_of(folder, "--gen_kwargs", *given)["gen_kwargs"] == {"temperature": 0.5, "until": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ("7", [7, 7, 7, 7]),
        ("0,1234,1234,None", [0, 1234, 1234, None]),
        ("1,none,3", [1, None, 3, 1234]),
    ],
)
def test_seeds_are_one_three_or_four(folder, given, seeds):
    config = config_of(folder, "--seed", given)
    assert [config[f"{name}_seed"] for name in ("random", "numpy", "torch", "fewshot")] == seeds


def test_tasks_may_be_named_by_comma_by_space_and_again(folder):
    for name in ("a", "b", "c", "d"):
        folder.task(f"task: {name}\n", name=f"tasks/{name}.yaml")
    folder.rows({"question": "Q?", "choices": ["x", "y"], "answer": 0}, name="tasks/rows.jsonl")
    argv = ("--model", "dummy", "-t", "a,b", "c", "--tasks", "d", "--include_path", "tasks", "--json")
    assert sorted(folder.run(*argv).json()["results"]) == ["a", "b", "c", "d"]


def test_several_folders_of_tasks_may_be_one_value(folder):
    for name in ("a", "b"):
        folder.task(f"task: {name}\n", name=f"{name}/task.yaml")
        folder.rows({"question": "Q?", "choices": ["x", "y"], "answer": 0}, name=f"{name}/rows.jsonl")
    argv = ("--model", "dummy", "-t", "a,b", "--include_path", "a:b", "--json")
    assert sorted(folder.run(*argv).json()["results"]) == ["a", "b"]


@pytest.mark.parametrize("given", ["auto", "auto:4", "8"])
def test_batch_sizes_are_taken_as_they_are(folder, given):
    assert (
        config_of(folder, "--batch_size", given, "--max_batch_size", "16", "--device", "cuda:0")["batch_size"] == given
    )


@pytest.mark.parametrize(("given", "level"), [("debug", "DEBUG"), ("WARNING", "WARNING")])
@pytest.mark.parametrize("name", ["LMEVAL_LOG_LEVEL", "LOGLEVEL"])
def test_the_environment_may_say_what_is_logged(monkeypatch, name, given, level):
    monkeypatch.setenv(name, given)
    assert parser().parse_args(["run"]).verbosity == level


def test_a_model_that_only_its_arguments_name_is_a_local_one(folder):
    folder.task()
    ran = folder.run("--model_args", "pretrained=./nope", "--tasks", "task.yaml")
    assert (ran.code, "folder './nope' does not exist" in ran.err) == (1, True)


# What is done


def test_metadata_goes_to_the_code_that_makes_a_dataset(folder):
    folder.write(
        {
            "utils.py": "def make(lengths=(), **_):\n"
            "    return {'test': [{'question': str(n), 'choices': ['a', 'b'], 'answer': 0} for n in lengths]}\n"
        }
    )
    folder.task("custom_dataset: !function utils.make\n", without="dataset_path")
    ran = folder.run(*RUN, "--metadata", "lengths=[1,2,3]", "--json")
    assert ran.code == 0, ran.err
    results = ran.json()
    assert results["results"]["t"]["sample_len"] == 3
    assert results["configs"]["t"]["metadata"]["lengths"] == [1, 2, 3]


def test_the_whole_file_is_printed_before_the_table(folder):
    folder.task()
    out = folder.run(*RUN, "--show_config").out
    text, _, table = out.rpartition("\n}\n")
    assert json.loads(text + "}")["results"]["t"]["sample_len"] == 4
    assert "95 % interval" in table


def test_a_folder_will_do_for_stored_answers(folder):
    folder.task()
    (folder.path / "kept").mkdir()
    assert folder.run(*RUN, "-c", "kept").code == 0
    assert (folder.path / "kept" / "answers.db").is_file()


def requests_kept(folder: Any) -> list[Path]:
    return sorted((folder.path / "cache" / "multiform" / "requests").glob("*"))


def test_requests_are_kept_and_used_again(folder, rendered):
    folder.task()
    first = folder.run(*RUN, "--cache_requests", "--num_fewshot", "1", "--json").json()
    [file] = requests_kept(folder)
    times = len(rendered)
    second = folder.run(*RUN, "--cache_requests", "true", "--num_fewshot", "1", "--json").json()
    assert len(rendered) == times
    assert second["task_hashes"] == first["task_hashes"]
    third = folder.run(*RUN, "--cache_requests", "refresh", "--num_fewshot", "1", "--json").json()
    assert len(rendered) > times
    assert third["task_hashes"] == first["task_hashes"]
    assert requests_kept(folder) == [file]


def test_other_prompts_are_kept_apart(folder):
    folder.task()
    for more in ([], ["--num_fewshot", "1"], ["--system_instruction", "x"]):
        assert folder.run(*RUN, "--cache_requests", *more).code == 0
    assert len(requests_kept(folder)) == 3


def test_kept_requests_can_be_removed(folder):
    folder.task()
    folder.run(*RUN, "--cache_requests")
    ran = folder.run(*RUN, "--cache_requests", "delete")
    assert (ran.code, requests_kept(folder)) == (0, [])
    assert "removed 1 file of cached requests" in ran.err


# What is accepted


def test_a_flag_that_does_nothing_says_so_once(folder):
    folder.task()
    ran = folder.run(*RUN, "--check_integrity")
    assert ran.code == 0, ran.err
    assert ran.err.count("every prompt is rendered and checked before the model runs") == 1


def test_a_tracker_that_is_not_installed_is_refused_before_the_model_runs(folder, monkeypatch):
    folder.task()
    monkeypatch.setattr("multiform.results.exchange.trackers.find_spec", lambda name: None)
    ran = folder.run(*RUN, "--wandb_args", "project=x", "--wandb_config_args", "a=1")
    assert ran.code == 2
    assert "wandb_args: the package wandb is not installed; pip install 'multiform[wandb]'" in ran.err


@pytest.mark.parametrize("name", ["hf", "hf-auto", "huggingface", "hf-multimodal", "dummy", "openai-completions"])
@pytest.mark.parametrize("more", ["local-completions", "openai-chat-completions", "local-chat-completions"])
def test_models_that_are_here_have_the_names_of_lm_eval(name, more):
    assert {name, more} <= set(models)


@pytest.mark.parity
def test_every_model_of_lm_eval_is_here_or_has_a_hint():
    pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install 'multiform[parity]'")
    from lm_eval.models import MODEL_MAPPING

    assert set(MODEL_MAPPING) == (set(MODEL_MAPPING) & set(models)) | set(INSTEAD)


# --config

CONFIG = """\
model: dummy
model_args:
  seed: 3
tasks:
  - task.yaml
num_fewshot: 1
batch_size: auto:4
max_batch_size: null
device: cuda:0
limit: 3
use_cache: null
cache_requests: {cache_requests: true}
gen_kwargs: {temperature: 0, until: ["a"]}
seed: [0, 1234, 1234, null]
samples: null
output_path: out
log_samples: true
predict_only: false
write_out: false
show_config: false
check_integrity: false
apply_chat_template: true
fewshot_as_multiturn: true
system_instruction: Be brief.
include_path: null
verbosity: null
wandb_args: {}
wandb_config_args: {}
trackio_args: {}
hf_hub_log_args: {}
trust_remote_code: false
confirm_run_unsafe_code: false
metadata: {tokenizer: gpt2}
"""


def test_a_configuration_file_of_lm_eval_runs(folder):
    folder.task()
    folder.write({"run.yaml": CONFIG})
    ran = folder.run("run", "--config", "run.yaml", "--json")
    assert ran.code == 0, ran.err
    config, results = ran.json()["config"], ran.json()
    assert (config["model_args"], config["limit"], config["batch_size"]) == ({"seed": 3}, 3, "auto:4")
    assert (config["gen_kwargs"], config["fewshot_seed"]) == ({"temperature": 0, "until": ["a"]}, None)
    assert results["configs"]["t"]["metadata"]["tokenizer"] == "gpt2"
    assert (results["system_instruction"], results["fewshot_as_multiturn"]) == ("Be brief.", True)
    assert list(folder.samples()) == ["t"]
    assert requests_kept(folder) == []  # prompts of a chat whose model is not stored
    assert "not cached" in ran.err


def test_arguments_on_the_command_line_take_the_place_of_those_in_the_file(folder):
    folder.task()
    folder.write({"run.yaml": CONFIG})
    ran = folder.run("-C", "run.yaml", "--model_args", "text=a", "--tasks", "quiz", "--limit", "1", "--json")
    assert ran.json()["config"]["model_args"] == {"text": "a"}
    assert list(ran.json()["results"]) == ["quiz"]


@pytest.mark.parametrize("value", ["true", '"refresh"', "{rewrite_requests_cache: true, cache_requests: true}"])
def test_a_file_may_ask_for_kept_requests_in_every_way(folder, value):
    folder.task()
    folder.write({"run.yaml": f"model: dummy\ntasks: task.yaml\ncache_requests: {value}\n"})
    assert folder.run("run", "--config", "run.yaml").code == 0
    assert len(requests_kept(folder)) == 1


# The other commands


def test_validate_takes_tasks_as_lm_eval_does(folder):
    folder.task("task: a\n", name="tasks/a.yaml")
    folder.rows({"question": "Q?", "choices": ["x", "y"], "answer": 0}, name="tasks/rows.jsonl")
    assert folder.run("validate", "--tasks", "a,quiz", "--include_path", "tasks").code == 0
    ran = folder.run("validate", "--tasks", "a,nope", "--include_path", "tasks")
    assert (ran.code, "nope: no task" in ran.out) == (2, True)
