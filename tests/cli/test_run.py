"""`multiform run`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.models import ModelEntry, models
from multiform.models.dummy import DummyModel
from multiform.requests import LLOutput, LoglikelihoodRequest

RUN = ("run", "--model", "dummy", "--tasks")

#: The keys of a results file of lm-eval 0.4.13, in its order; a model's own keys and groups come in between.
RESULTS_KEYS = [
    *("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "config"),
    *("git_hash", "date", "pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash"),
    *("model_source", "model_name", "model_name_sanitized", "system_instruction", "system_instruction_sha"),
    *("fewshot_as_multiturn", "chat_template", "chat_template_sha", "total_evaluation_time_seconds"),
]
CONFIG_KEYS = [
    *("model", "model_args", "batch_size", "batch_sizes", "device", "use_cache", "limit", "bootstrap_iters"),
    *("gen_kwargs", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed"),
]
SAMPLE_KEYS = [
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
]


def in_order(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    """Those of the wanted names that are not found, or not in this order."""
    rest = iter(found)
    return [name for name in wanted if name not in rest]


# What is printed


def test_two_formats_of_one_task_are_two_rows(folder):
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa+cloze")
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines() if " ± " in line]
    assert [(row[0], len(row)) for row in rows] == [
        ("mcqa", 6),
        ("cloze", 6),
    ]  # form, metric, its direction, score ± SE
    (spread,) = [line.split() for line in ran.out.splitlines() if line.startswith(" t ")]
    assert len(spread) == 8  # task, n, best minus worst with its interval and p


def test_two_formats_of_one_task_are_two_rows_of_a_long_table(folder):
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa+cloze", "--table", "long")
    rows = [line.split()[0] for line in ran.out.splitlines() if line.strip().startswith("t@")]
    assert (ran.code, rows) == (0, ["t@mcqa", "t@cloze"])


def test_formats_may_be_named_one_by_one(folder):
    folder.task()
    assert list(folder.run(*RUN, "task.yaml@mcqa", "task.yaml@cloze,task.yaml", "--json").json()["results"]) == [
        "t@mcqa",
        "t@cloze",
        "t",
    ]


def test_tasks_may_be_named_without_the_flag(folder):
    folder.task()
    ran = folder.run("run", "task.yaml@mcqa", "task.yaml@cloze", "--model", "dummy", "--json")
    assert list(ran.json()["results"]) == ["t@mcqa", "t@cloze"]
    both = ("--tasks", "task.yaml@cloze", "--limit", "1", "task.yaml@mcqa")
    ran = folder.run("run", "--model", "dummy", "--json", *both)
    assert list(ran.json()["results"]) == ["t@mcqa", "t@cloze"]


def test_tasks_without_the_flag_take_the_place_of_those_in_a_config_file(folder):
    folder.task()
    folder.write({"run.yaml": "tasks: quiz@all\nmodel: dummy\n"})
    assert list(folder.run("run", "task.yaml@mcqa", "--config", "run.yaml", "--json").json()["results"]) == ["t@mcqa"]


@pytest.mark.parametrize("spec", ["trivia", "trivia@mcqa"])
def test_a_file_of_the_name_is_suggested(folder, spec):
    folder.task(name="trivia.yaml")
    (error,) = folder.run("run", spec, "--model", "dummy").errors
    assert error.endswith(f"there is a file of that name: write {spec.replace('trivia', 'trivia.yaml')}")


def test_all_means_every_format_that_the_mapping_supports(folder):
    folder.task(without="doc_to_choice")
    assert set(folder.run(*RUN, "task.yaml@all", "--json").json()["results"]) == {"t@cot", "t@bpb"}


def test_table_is_not_cut_in_a_pipe(folder):
    folder.task(f"task: {'long_' * 60}name\n")
    assert "long_" * 60 + "name" in folder.run(*RUN, "task.yaml").out


@pytest.mark.parametrize("name", ["a[/b]", "[red]t", ":smile:", "موضوع", "t%s{0}"])
def test_name_is_printed_as_it_is(folder, name):
    folder.task(f"task: '{name}'\n")
    ran = folder.run(*RUN, "task.yaml")
    assert ran.code == 0
    assert name in ran.out


def test_what_a_format_overrides_is_said(folder):
    folder.task("metric_list: [{metric: acc}]\n")
    assert "t@generate: the format overrides metric acc" in folder.run(*RUN, "task.yaml@generate").out


@pytest.mark.process
def test_json_is_alone_on_standard_output(folder):
    folder.task()
    ran = folder.process(*RUN, "task.yaml@mcqa", "--json", "--output_path", "out", "--log_samples")
    assert ran.json()["results"]["t@mcqa"]["sample_len"] == 4
    assert "wrote" in ran.err


def test_json_is_what_the_results_file_holds(folder):
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa", "--json", "--output_path", "out")
    assert ran.json() == json.loads(folder.results()[0].read_text())


def test_key_is_the_bare_name_without_a_format(folder):
    assert list(folder.run(*RUN, "quiz", "--limit", "2", "--json").json()["results"]) == ["quiz"]


def test_flags_without_a_command_mean_run(folder):
    folder.task()
    assert list(folder.run("--tasks", "task.yaml", "--model", "dummy", "--json").json()["results"]) == ["t"]


def test_same_command_gives_the_same_scores(folder):
    first, second = (folder.run(*RUN, "quiz@all", "--limit", "20", "--num_fewshot", "2", "--json") for _ in range(2))
    assert first.json()["results"] == second.json()["results"]
    assert first.json()["task_hashes"] == second.json()["task_hashes"]


# What is written


@pytest.fixture
def written(folder) -> Any:
    """The results and samples of two formats."""
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa+generate", "--output_path", "out", "--log_samples", "--limit", "3")
    assert ran.code == 0, ran.err
    return folder


def test_two_formats_of_one_task_have_two_sample_files(written):
    assert list(written.samples()) == ["t@generate", "t@mcqa"]


def test_two_formats_of_one_task_have_different_prompts(written):
    prompts = {form: lines[0]["arguments"]["gen_args_0"]["arg_0"] for form, lines in written.samples().items()}
    assert prompts["t@mcqa"] == "Question: Question 0?\nA. x0\nB. y0\nC. z0\nAnswer:"
    assert prompts["t@generate"].startswith("Given the following question and 3 candidate answers (A, B and C)")


def test_files_are_named_as_lm_eval_names_them(written):
    names = sorted(str(path.relative_to(written.path / "out")) for path in (written.path / "out").rglob("*.*"))
    stamp = names[0].removeprefix("dummy/results_").removesuffix(".json")
    assert names == [f"dummy/results_{stamp}.json"] + [
        f"dummy/samples_t@{form}_{stamp}.jsonl" for form in ("generate", "mcqa")
    ]


def test_results_have_the_keys_of_lm_eval(written):
    results = json.loads(written.results()[0].read_text())
    assert in_order(RESULTS_KEYS, list(results)) == []
    assert "task_hashes" in results


def test_config_of_results_has_the_keys_of_lm_eval(written):
    assert in_order(CONFIG_KEYS, list(json.loads(written.results()[0].read_text())["config"])) == []


def test_scores_have_the_keys_of_lm_eval(written):
    scores = json.loads(written.results()[0].read_text())["results"]["t@mcqa"]
    assert list(scores)[:5] == ["name", "alias", "sample_len", "acc,none", "acc_stderr,none"]


def test_number_of_documents_is_stated_with_and_without_the_limit(written):
    results = json.loads(written.results()[0].read_text())
    assert results["n-samples"]["t@mcqa"] == {"original": 4, "effective": 3}


@pytest.mark.parametrize(("form", "metrics"), [("t@mcqa", ["acc"]), ("t@generate", ["exact_match", "invalid"])])
def test_samples_have_the_keys_of_lm_eval(written, form, metrics):
    for line in written.samples()[form]:
        assert in_order([*SAMPLE_KEYS, *metrics], list(line)) == []


def test_answers_in_samples_are_text_as_in_lm_eval(written):
    line = written.samples()["t@mcqa"][0]
    assert [len(line["resps"]), len(line["filtered_resps"])] == [3, 3]
    assert all(isinstance(part, str) for [[*parts]] in line["resps"] for part in parts)
    assert all(isinstance(part, str) for parts in line["filtered_resps"] for part in parts)


def test_output_path_that_ends_in_json_names_the_file(folder):
    folder.task()
    assert folder.run(*RUN, "task.yaml", "--output_path", "out/mine.json", "--log_samples").code == 0
    names = sorted(path.name.rpartition("_")[0] for path in (folder.path / "out").iterdir())
    assert names == ["mine", "samples_t"]


def test_names_that_are_alike_in_a_path_have_files_of_their_own(folder):
    folder.task("task: a b\n")
    folder.task("task: a_b\n", name="other.yaml")
    assert folder.run(*RUN, "task.yaml", "other.yaml", "--output_path", "out", "--log_samples").code == 0
    assert len(folder.samples()) == 2


def test_name_too_long_for_a_file_is_shortened(folder):
    folder.task(f"task: {'n' * 300}\n")
    assert folder.run(*RUN, "task.yaml", "--output_path", "out", "--log_samples").code == 0
    assert len(folder.samples()) == 1


def test_score_that_is_no_number_is_null(folder):
    folder.write({"utils.py": "def nan(items):\n    return float('nan')\n"})
    folder.task("metric_list: [{metric: acc, aggregation: !function utils.nan}]\n")
    ran = folder.run(*RUN, "task.yaml", "--json")
    parsed = json.loads(ran.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert parsed["results"]["t"]["acc,none"] is None


def test_score_of_numpy_is_a_number(folder):
    folder.write({"utils.py": "import numpy\n\n\ndef half(items):\n    return numpy.float32(0.5)\n"})
    folder.task("metric_list: [{metric: acc, aggregation: !function utils.half}]\n")
    assert folder.run(*RUN, "task.yaml", "--json").json()["results"]["t"]["acc,none"] == 0.5


# Which documents


def doc_ids(folder, *argv: str) -> list[int]:
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa", "--output_path", "out", "--log_samples", *argv)
    assert ran.code == 0, ran.err
    return [line["doc_id"] for line in folder.samples()["t@mcqa"]]


@pytest.mark.parametrize(("limit", "ids"), [("2", [0, 1]), ("0.3", [0, 1]), ("99", [0, 1, 2, 3])])
def test_limit_is_a_number_or_a_fraction(folder, limit, ids):
    assert doc_ids(folder, "--limit", limit) == ids


@pytest.mark.parametrize("name", ["t", "t@mcqa"])
def test_samples_are_chosen_by_the_name_of_task_or_form(folder, name):
    assert doc_ids(folder, "--samples", json.dumps({name: [3, 1]})) == [1, 3]


def test_samples_may_be_in_a_file(folder):
    folder.write({"samples.json": '{"t": [2]}'})
    assert doc_ids(folder, "--samples", "samples.json") == [2]


# --config


def test_config_file_holds_flags(folder):
    folder.task()
    folder.write({"run.yaml": "tasks: [task.yaml@mcqa]\nmodel: dummy\nmodel_args: {seed: 3}\nlimit: 2\njson: true\n"})
    results = folder.run("run", "--config", "run.yaml").json()
    assert (results["config"]["model_args"], results["results"]["t@mcqa"]["sample_len"]) == ({"seed": 3}, 2)


def test_command_line_wins_over_the_config_file(folder):
    folder.task()
    folder.write({"run.yaml": "tasks: nope\nmodel: nope\nlimit: 2\nseed: 7\n"})
    ran = folder.run(
        "run", "--config", "run.yaml", "--model", "dummy", "--tasks", "task.yaml", "--limit", "3", "--json"
    )
    config = ran.json()["config"]
    assert (config["limit"], config["fewshot_seed"]) == (3, 7)


def test_a_default_on_the_command_line_wins_as_well(folder):
    folder.task()
    folder.write({"run.yaml": "tasks: task.yaml\nmodel: dummy\nseed: 7\n"})
    ran = folder.run("run", "--config", "run.yaml", "--seed", "0,1234,1234,1234", "--json")
    assert ran.json()["config"]["fewshot_seed"] == 1234


# Odd values

ODD = {
    "emoji": "Who is 👩‍🚀?",
    "right_to_left": "ما هي عاصمة فرنسا؟",
    "nul": "a\0b",
    "escape": "a\x1b[31mb",
    "lone_surrogate": "a\ud800b",
    "low_surrogate": "a\udcffb",
    "line_separators": "one\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven\reight\r\nnine",
    "looks_like_jinja": "{{ question }} {% if x %}",
    "looks_like_markup": "[bold]a[/bold] :smile:",
    "spaces": " \t\xa0\u3000 ",
    "empty": "",
    "five_megabytes": "long " * 1_000_000,
}


@pytest.mark.long
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in ODD.items()])
def test_odd_text_survives_run_and_samples(folder, text):
    choices = [f"{text[:100]}1", f"{text[:100]}2"]
    doc = {"question": text, "choices": choices, "answer": 1}
    folder.rows(doc)
    folder.task()
    ran = folder.run(*RUN, "task.yaml@mcqa+cloze+generate", "--output_path", "out", "--log_samples", "--json")
    assert ran.code == 0, ran.err
    samples = folder.samples()
    assert [lines[0]["doc"] for lines in samples.values()] == [doc] * 3
    context = f"Question: {text}\nA. {choices[0]}\nB. {choices[1]}\nAnswer:"
    assert samples["t@mcqa"][0]["arguments"]["gen_args_0"] == {"arg_0": context, "arg_1": " A"}


@pytest.mark.process
def test_odd_text_survives_a_run_in_a_process_of_its_own(folder):
    folder.rows(*({"question": text, "choices": [text, "no"], "answer": 1} for text in list(ODD.values())[:-2]))
    folder.task()
    ran = folder.process(*RUN, "task.yaml@mcqa", "--output_path", "out", "--log_samples", "--json")
    assert (ran.code, ran.json()["results"]["t@mcqa"]["sample_len"]) == (0, len(ODD) - 2)
    assert [line["doc"]["question"] for line in folder.samples()["t@mcqa"]] == list(ODD.values())[:-2]


def test_a_sample_is_one_line_whatever_ends_a_line(folder):
    folder.rows({"question": ODD["line_separators"], "choices": ["a", "b"], "answer": 0})
    folder.task()
    folder.run(*RUN, "task.yaml", "--output_path", "out", "--log_samples")
    [path] = (folder.path / "out").rglob("samples_*.jsonl")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_files_are_utf8_even_with_lone_surrogates(folder):
    folder.rows({"question": ODD["low_surrogate"], "choices": ["a", "b"], "answer": 0})
    folder.task()
    folder.run(*RUN, "task.yaml", "--output_path", "out", "--log_samples")
    [path] = (folder.path / "out").rglob("samples_*.jsonl")
    assert json.loads(path.read_bytes().decode("utf-8"))["doc"]["question"] == ODD["low_surrogate"]


# How it ends


def register(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """A model that answers once and then fails."""

    class Failing(DummyModel):
        def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[tuple[int, LLOutput]]:
            yield 0, LLOutput(-1.0)
            raise error

    monkeypatch.setitem(models._entries, "failing", ModelEntry(factory=Failing))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModelError("the server has gone", hint="start it again"), "error: the server has gone; start it again"),
        (RuntimeError("out of memory"), "error: model 'dummy' failed: RuntimeError: out of memory; run again with a"),
        (OSError(5, "Input/output error"), "error: model 'dummy' failed: OSError: [Errno 5] Input/output error"),
    ],
    ids=["model_error", "runtime_error", "os_error"],
)
def test_a_model_that_fails_ends_the_run_with_1(folder, monkeypatch, error, message):
    folder.task()
    register(monkeypatch, error)
    ran = folder.run("run", "--model", "failing", "--tasks", "task.yaml")
    assert (ran.code, ran.out, len(ran.errors)) == (1, "", 1)
    assert ran.errors[0].startswith(message)


def test_a_bug_is_one_message_that_asks_for_a_report(folder, monkeypatch):
    folder.task()
    register(monkeypatch, AssertionError("two lines\nof it"))
    ran = folder.run("run", "--model", "failing", "--tasks", "task.yaml")
    assert (ran.code, "Traceback" in ran.err) == (1, False)
    assert ran.errors == [
        "error: multiform: AssertionError: two lines of it; this is a bug: please report it with the output of "
        "--verbosity DEBUG"
    ]


def test_a_bug_has_its_traceback_where_it_is_asked_for(folder, monkeypatch):
    folder.task()
    register(monkeypatch, AssertionError())
    assert "Traceback" in folder.run("run", "--model", "failing", "--tasks", "task.yaml", "--verbosity", "debug").err


def test_interrupt_ends_the_run_with_130(folder, monkeypatch):
    folder.task()
    register(monkeypatch, KeyboardInterrupt())
    ran = folder.run("run", "--model", "failing", "--tasks", "task.yaml", "--output_path", "out")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.splitlines()[-1].startswith("interrupted: ")
    [state] = (path for path in (folder.path / "out").rglob("*") if path.is_file())
    assert json.loads(state.read_text())["status"] == "stopped"


SLOW = """\
import pathlib
import time


def slow(doc):
    pathlib.Path("started").touch()
    time.sleep(60)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "argv", [[*RUN, "task.yaml", "--output_path", "out"], ["show", "task.yaml"]], ids=["run", "show"]
)
def test_control_c_gives_130_and_one_line(folder, argv):
    folder.write({"utils.py": SLOW})
    folder.task("doc_to_text: !function utils.slow\n")
    process = folder.start(*argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not (folder.path / "started").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines()[-1].startswith("interrupted")
    assert b"Traceback" not in err


def small_files() -> None:
    """Let no file grow beyond 2000 bytes, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.fixture(scope="module")
def full(make_folder) -> Any:
    """A run whose files do not fit on the disk."""
    folder = make_folder()
    folder.task()
    argv = (*RUN, "task.yaml@mcqa", "--output_path", "out", "--log_samples", "--no_cache")
    return folder, folder.process(*argv, preexec_fn=small_files)


@pytest.mark.process
def test_a_full_disk_ends_the_run_with_1_and_one_message(full):
    _, ran = full
    assert (ran.code, len(ran.errors), "Traceback" in ran.err) == (1, 1, False)
    assert (
        "could not be written: File too large; free some space, or choose a folder that can be written" in ran.errors[0]
    )


@pytest.mark.process
def test_a_full_disk_leaves_no_file_that_is_half_there(full):
    folder, _ = full
    assert [path for path in (folder.path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.process
def test_a_full_disk_does_not_lose_the_scores(full):
    _, ran = full
    assert "t@mcqa" in ran.out


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("argv", [["show", "quiz"], [*RUN, "quiz", "--limit", "2"]], ids=["show", "run"])
def test_a_full_standard_output_is_one_message(folder, argv):
    with open("/dev/full", "w") as full:
        ran = subprocess.run(folder.command(*argv), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    errors = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
    assert (ran.returncode, errors) == (
        1,
        ["error: standard output: No space left on device; check its rights and the space on the disk"],
    )
    assert "Exception ignored" not in ran.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "argv",
    [
        ["show", "quiz@all", "--doc", "all", "--json"],
        [*RUN, "quiz@mcqa", "--json"],
        ["run", "--help"],
    ],
    ids=["show", "run", "help"],
)
def test_a_reader_that_goes_away_is_no_error(folder, argv):
    with folder.start(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
    assert process.returncode == 0
    assert not [line for line in err.splitlines() if "Traceback" in line or "Exception ignored" in line]


@pytest.mark.process
def test_a_reader_that_goes_away_loses_no_file(folder):
    folder.task()
    read, write = os.pipe()
    os.close(read)
    command = folder.command(*RUN, "task.yaml", "--output_path", "out")
    ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=folder.path, check=False)
    os.close(write)
    assert (ran.returncode, len(folder.results())) == (0, 1)


def test_the_token_of_a_dataset_is_not_in_results(folder):
    folder.task("dataset_kwargs: {token: hf_s3cret}\n")
    ran = folder.run("run", "task.yaml", "--model", "dummy", "--json", "--output_path", "out", "--log_samples")
    assert ran.json()["configs"]["t"]["dataset_kwargs"] == {"token": "***"}
    written = [file.read_text() for file in (folder.path / "out").rglob("*") if file.is_file()]
    assert all("s3cret" not in text for text in [ran.out, ran.err, *written])
