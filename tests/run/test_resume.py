"""A run that was stopped goes on where it was, and one that is done asks nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from multiform.run.store import Store
from tests.run.conftest import Runs
from tests.task_files import MULTIPLE_CHOICE

pytestmark = pytest.mark.process


def scores(results: dict[str, Any]) -> Any:
    return results["results"]


def test_a_second_run_asks_nothing(runs: Runs) -> None:
    first = runs.finish("--limit", "10")
    assert len(runs.asked()) == 80
    assert scores(runs.finish("--limit", "10")) == scores(first)
    assert runs.asked() == []


def test_a_longer_run_asks_only_the_rest(runs: Runs) -> None:
    runs.finish("--limit", "5")
    before = runs.asked()
    runs.finish("--limit", "8")
    assert (len(before), len(runs.asked())) == (40, 24)


def test_a_killed_run_goes_on_where_it_was(runs: Runs) -> None:
    code, _, before = runs.stopped(signal.SIGKILL)
    assert code == -signal.SIGKILL
    results = runs.finish()
    after = runs.asked()
    again = set(before) & set(after)
    # Lost is what was answered in the tenth of a second before, at a hundred answers a second at most.
    assert len(again) <= 20
    assert len(set(before) | set(after)) == len(before) + len(after) - len(again)
    (runs.folder / "answers.db").unlink()
    assert scores(runs.finish()) == scores(results)
    assert set(runs.asked()) == set(before) | set(after)


def test_an_interrupted_run_says_how_to_go_on_and_loses_nothing(runs: Runs) -> None:
    code, err, before = runs.stopped(signal.SIGINT)
    assert code == 130
    assert err.splitlines()[-1] == ("interrupted: the responses so far are stored; run the same command again to go on")
    runs.finish()
    # The request that was being answered is asked again, and none that had its answer.
    assert len(set(before) & set(runs.asked())) <= 1


@pytest.mark.parametrize(
    ("signum", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_stopped_run_leaves_partial_results_that_the_finished_one_replaces(
    signum: int, code: int, word: str, runs: Runs
) -> None:
    output = ("--output_path", "out", "--log_samples")
    ended, err, asked = runs.stopped(signum, *output)
    assert (ended, err.splitlines()[-1].partition(":")[0]) == (code, word)
    folder = runs.folder / "out" / "slow"
    assert sorted(path.name.rpartition("_")[0] for path in folder.iterdir()) == [
        "partial_results",
        "partial_samples",
        "run",
    ]
    [results], [samples], [state] = (
        list(folder.glob(f"{kind}_*")) for kind in ("partial_results", "partial_samples", "run")
    )
    partial = json.loads(results.read_text())
    assert partial["status"] == "stopped"
    scored = sum(count["effective"] for count in partial["n-samples"].values())
    assert 0 < scored <= len(asked) // 4
    assert len(samples.read_text().splitlines()) == scored
    told = json.loads(state.read_text())
    assert (told["status"], told["requests"]["answered"]) == ("stopped", len(asked))
    assert sum(form["scored"] for form in told["forms"].values()) == scored
    finished = runs.finish(*output)
    assert (finished["status"], len(finished["results"])) == ("complete", 2)
    assert {path.name.partition("_")[0] for path in folder.iterdir()} == {"results", "samples"}


def test_a_second_interrupt_does_not_wait(runs: Runs) -> None:
    process = runs.start(pause=30)
    runs.await_responses(1)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "finishing what is in flight; once more stops at once" in err.decode()
    assert err.decode().splitlines()[-1].endswith("run the same command again to go on")


def test_an_interrupted_run_with_fresh_says_that_the_same_command_starts_over(runs: Runs) -> None:
    _, err, _ = runs.stopped(signal.SIGINT, "--fresh")
    assert err.splitlines()[-1].endswith("the responses so far are stored; leave out fresh to ask only for the rest")


def test_an_interrupt_without_a_store_does_not_promise_anything(runs: Runs) -> None:
    code, err, _ = runs.stopped(signal.SIGINT, "--no_cache")
    assert code == 130
    assert err.splitlines()[-1] == "interrupted: the responses are not stored: run the same command again to start over"


def test_a_killed_run_can_be_looked_at(runs: Runs) -> None:
    runs.stopped(signal.SIGKILL, "--output_path", "out", "--log_samples")
    folder = runs.folder / "out" / "slow"
    [state], [samples] = folder.glob("run_*.json"), folder.glob("partial_samples_*.jsonl")
    assert json.loads(state.read_text())["status"] == "running"
    *lines, last = samples.read_text().split("\n")
    assert {json.loads(line)["form"] for line in lines} <= {"quiz@mcqa", "quiz@cloze"}
    assert (len(lines) >= 10, last) == (True, "")


def test_without_a_store_all_is_asked_again(runs: Runs) -> None:
    for _ in range(2):
        runs.finish("--limit", "2", "--no_cache")
        assert len(runs.asked()) == 16
    assert not (runs.folder / "answers.db").exists()


@pytest.mark.parametrize("flag", ["--cache_path", "--use_cache"])
def test_answers_go_where_the_command_line_says(flag: str, runs: Runs) -> None:
    results = runs.finish("--limit", "2", flag, "mine.db")
    assert results["config"]["use_cache"] == "mine.db"
    assert (runs.folder / "mine.db").exists()
    assert not (runs.folder / "answers.db").exists()


def test_answers_are_stored_somewhere_or_not_at_all(runs: Runs) -> None:
    process = runs.start("--no_cache", "--cache_path", "mine.db")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == b"error: --no_cache: responses are to be stored in 'mine.db' and not at all; choose one\n"


def test_the_plan_asks_nothing_and_counts_what_is_known(runs: Runs) -> None:
    runs.finish("--limit", "2")
    runs.asked()
    process = runs.start("--limit", "3", "--plan")
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["plan"].startswith("24 distinct requests for 6 documents; 16 of them are cached")
    assert runs.asked() == []


def test_a_changed_model_is_asked_again(runs: Runs) -> None:
    runs.finish("--limit", "2")
    assert len(runs.asked()) == 16
    runs.finish("--limit", "2", "--model_args", "seed=1")
    assert len(runs.asked()) == 16


#: Runs a command line and says whether that took torch.
WITH_TORCH = (
    "import sys; from multiform.cli.main import main; code = main(); print('torch' in sys.modules); sys.exit(code)"
)


@pytest.mark.bundled
@pytest.mark.parametrize(("more", "torch"), [((), b"False"), (("--apply_chat_template",), b"True")])
def test_a_local_model_is_not_even_loaded_when_all_is_known(
    more: tuple[str, ...], torch: bytes, bundled_path: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "MULTIFORM_STORE": str(tmp_path / "answers.db")}
    flags = ["--model", "hf", "--model_args", f"pretrained={bundled_path}", "--limit", "2", *more]
    command = [sys.executable, "-c", WITH_TORCH, "run", "--tasks", "quiz@mcqa", "--output_path", "out", *flags]
    ran = []
    for _ in range(2):
        ran.append(subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=180, check=True))
    assert [b"loading model" in done.stderr for done in ran] == [True, False]
    # A chat template takes the tokenizer, and transformers loads torch for that.
    assert [done.stdout.splitlines()[-1] for done in ran] == [b"True", torch]
    assert b"8 of 8 responses are cached in" in ran[1].stderr
    first, second = (json.loads(path.read_text()) for path in sorted((tmp_path / "out").rglob("results_*.json")))
    changing = ("date", "date_iso", "total_evaluation_time_seconds", "usage")
    assert {k: v for k, v in first.items() if k not in changing} == {
        k: v for k, v in second.items() if k not in changing
    }


@pytest.mark.bundled
def test_a_changed_file_is_another_model(bundled_path: Path, tmp_path: Path) -> None:
    from multiform.models import models

    folder = tmp_path / "model"
    folder.mkdir()
    for file in bundled_path.iterdir():
        (folder / file.name).symlink_to(file)
    sign = models.get("hf").signature
    arguments = {"pretrained": str(folder), "batch_size": 4}
    before = sign(arguments)
    assert before is not None
    assert sign({**arguments, "batch_size": 8}) == before
    assert sign({**arguments, "dtype": "bfloat16"}) != before
    config = folder / "config.json"
    text = config.read_text()
    config.unlink()
    config.write_text(text.replace("}", " }"))
    assert sign(arguments) != before


@pytest.mark.parametrize("arguments", [{"pretrained": "org/name"}, {"pretrained": "org/name", "revision": "main"}])
def test_a_name_on_the_hub_has_no_signature(arguments: dict[str, Any]) -> None:
    from multiform.models import models

    assert models.get("hf").signature(arguments) is None
    assert models.get("hf").signature({"pretrained": "org/name", "revision": "0" * 40}) is not None


def test_facts_that_are_damaged_are_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    store.remember("signature", {"identity": "x"})
    assert store.facts("signature") == {"identity": "x"}
    assert store.facts("another") is None


#: Code of a task that sends a signal to its own process while documents are prepared, or when scores are aggregated.
SIGNALLING = """
import os, signal, time

def stop():
    os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    time.sleep(30)

def prepare(docs):
    return stop() if os.environ["WHEN"] == "rendering" else docs

def aggregate(values):
    return stop() if os.environ["WHEN"] == "aggregating" else 1.0
"""
SIGNALLED = f"""\
task: t
{MULTIPLE_CHOICE}
process_docs: !function own.prepare
metric_list: [{{metric: acc, aggregation: !function own.aggregate}}]
"""


@pytest.mark.parametrize(
    ("signum", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
@pytest.mark.parametrize(
    ("when", "says"), [("rendering", "the model has not been run"), ("aggregating", "the responses so far are stored")]
)
def test_a_signal_before_or_after_the_asking_ends_with_a_message_as_well(
    when: str, says: str, signum: int, code: int, word: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(SIGNALLING)
    (tmp_path / "task.yaml").write_text(SIGNALLED)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"question": "?", "choices": ["a", "b"], "answer": 0}))
    ran = subprocess.run(
        [sys.executable, "-m", "multiform", "run", "task.yaml", "--model", "dummy", "--use_cache", "answers.db",
         "--output_path", "out"],
        cwd=tmp_path,
        env={**os.environ, "WHEN": when, "SIGNAL": str(int(signum))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"{word}: ")
    assert says in last
    assert "Traceback" not in ran.stderr
    states = [json.loads(file.read_text())["status"] for file in tmp_path.rglob("run_*.json")]
    assert states == ([] if when == "rendering" else ["stopped"])
