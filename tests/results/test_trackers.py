"""Experiment trackers: what they are told, and that none of them can cost a result."""

from __future__ import annotations

import logging
import signal as signals
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from multiform import evaluate
from multiform.errors import IncompleteRunError, UsageError
from multiform.models.dummy import DummyModel
from multiform.results.exchange import trackers
from multiform.results.exchange.trackers import Tracking

SECRET = "sk-verysecret"


class Recorder:
    """A tracker that keeps what it is told; its first `failures` calls raise, and each takes `seconds`."""

    def __init__(self, failures: int = 0, seconds: float = 0.0) -> None:
        self.failures, self.seconds = failures, seconds
        self.calls: list[tuple[str, Any]] = []

    def _note(self, name: str, value: Any) -> None:
        time.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the tracker is down")
        self.calls.append((name, value))

    def start(self, config: Mapping[str, Any]) -> None:
        self._note("start", dict(config))

    def log(self, scores: Mapping[str, float]) -> None:
        self._note("log", dict(scores))

    def finish(self, results: Any, state: str) -> None:
        self._note("finish", (results, state))


def run(**options: Any) -> Any:
    return evaluate(**{"model": "dummy", "tasks": "quiz@mcqa+cloze", "limit": 6, "progress": False, **options})


def test_a_tracker_gets_configuration_scores_and_state() -> None:
    recorder = Recorder()
    results = run(track=recorder)
    (start, config), (log, scores), (finish, (given, state)) = recorder.calls
    assert (start, log, finish, state) == ("start", "log", "finish", "complete")
    assert (config["model"], config["limit"]) == ("dummy", 6)
    assert scores["quiz@mcqa/acc,none"] == results["quiz@mcqa"]["acc"]
    assert scores["quiz@mcqa/acc,none_low"] == results.forms[0].estimates["acc,none"].low
    assert given.forms[0].samples


def test_a_run_that_fails_says_so() -> None:
    class Broken(DummyModel):
        def loglikelihood(self, requests: Any) -> Any:
            raise RuntimeError("out of memory")

    recorder = Recorder()
    with pytest.raises((IncompleteRunError, RuntimeError)):
        run(model=Broken(), track=recorder)
    assert recorder.calls[-1][0] == "finish"
    assert recorder.calls[-1][1][1] == "failed"


def test_a_run_that_is_interrupted_says_so() -> None:
    class Interrupted(DummyModel):
        def loglikelihood(self, requests: Any) -> Any:
            raise KeyboardInterrupt

    recorder = Recorder()
    with pytest.raises(BaseException, match="run the same command again"):
        run(model=Interrupted(), track=recorder)
    assert recorder.calls[-1][1][1] == "stopped"


def test_a_tracker_that_is_down_is_told_again_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(failures=1)
    with caplog.at_level(logging.WARNING, logger="multiform"):
        logging.getLogger("multiform").addHandler(caplog.handler)
        try:
            results = run(track=[recorder])
        finally:
            logging.getLogger("multiform").removeHandler(caplog.handler)
    assert results.status == "complete"
    assert [name for name, _ in recorder.calls] == ["start", "log", "finish"]
    assert "Recorder failed (ConnectionError: the tracker is down)" in caplog.text


def test_a_tracker_that_stays_down_costs_nothing(tmp_path: Path) -> None:
    recorder = Recorder(failures=99)
    assert run(track=recorder, output_path=tmp_path).status == "complete"
    assert list(tmp_path.rglob("results_*.json"))
    assert recorder.calls == []


def test_a_slow_tracker_is_waited_for_a_while_only() -> None:
    started = time.monotonic()
    Tracking([Recorder(seconds=30)], {}, patience=0.2).finish(None, "complete")
    assert time.monotonic() - started < 5


def test_scores_are_told_while_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "RUNNING_PAUSE", 0.0)
    recorder = Recorder()
    results = run(track=recorder, model=Slow())
    running = [scores for name, scores in recorder.calls if name == "log"][:-1]
    assert len(running) >= 2
    assert all(name.startswith("running/") for scores in running for name in scores)
    counts = [scores["running/documents"] for scores in running]
    assert counts == sorted(counts)
    assert running[-1]["running/quiz@mcqa/acc,none"] == pytest.approx(results["quiz@mcqa"]["acc"], abs=0.5)


class Slow(DummyModel):
    """Takes a moment for each response."""

    def loglikelihood(self, requests: Any) -> Any:
        for response in super().loglikelihood(requests):
            time.sleep(0.01)
            yield response


def test_a_slow_tracker_misses_scores_of_the_run_and_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "RUNNING_PAUSE", 0.0)
    recorder = Recorder(seconds=0.2)
    run(track=recorder, model=Slow())
    assert recorder.calls[-1][0] == "finish"
    assert len(recorder.calls) < 12  # of 12 documents


def test_a_tracker_that_fails_on_the_way_is_told_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Recorder):
        def log(self, scores: Mapping[str, float]) -> None:
            if any(name.startswith("running/") for name in scores):
                raise OSError("no space left on device")
            super().log(scores)

    monkeypatch.setattr(trackers, "RUNNING_PAUSE", 0.0)
    recorder = Full()
    assert run(track=recorder, model=Slow()).status == "complete"
    assert [name for name, _ in recorder.calls][-2:] == ["log", "finish"]


def test_secrets_are_not_told() -> None:
    recorder = Recorder()
    Tracking([recorder], {"model_args": {"api_key": SECRET, "model": "m"}}).finish(None, "complete")
    assert recorder.calls[0][1] == {"model_args": {"model": "m"}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"track": "wandbb"}, "track: no tracker 'wandbb'; did you mean 'wandb'"),
        ({"track": 3}, "track: int is not a tracker"),
        ({"wandb_args": "project=x"}, "the package wandb is not installed"),
        ({"wandb_config_args": "a=1"}, "wandb_config_args needs wandb_args"),
    ],
)
def test_what_cannot_be_honoured_is_refused(options: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        run(**options)
    assert message in str(caught.value)


def wandb_records(file: bytes) -> bytes:
    """What is in a file of wandb: blocks of 32 KiB with pieces of records, each after a header of 7 bytes."""
    content, place = b"", 7
    while place + 7 <= len(file):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length = int.from_bytes(file[place + 4 : place + 6], "little")
        content += file[place + 7 : place + 7 + length]
        place += 7 + length
    return content


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    run(wandb_args={"project": "evals", "dir": str(tmp_path)}, wandb_config_args={"cluster": "a"})
    wandb.teardown()  # its own process writes the file when it ends
    (record,) = tmp_path.rglob("offline-run-*/run-*.wandb")
    content = wandb_records(record.read_bytes())
    for text in (b"quiz@mcqa/acc,none", b"cluster", b"complete", b"samples", b"report.html"):
        assert text in content


def test_trackio_locally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio")
    results = run(trackio_args={"project": "evals", "name": "first"})
    (found,) = trackio.Api().runs("evals")
    assert found.config["limit"] == 6
    logged: dict[str, Any] = {}
    for entry in trackio.SQLiteStorage.get_logs("evals", "first"):
        logged |= entry
    assert logged["quiz@mcqa/acc,none"] == results["quiz@mcqa"]["acc"]
    assert logged["complete"] == 1
    blobs = [file.read_bytes() for file in tmp_path.rglob("blobs/sha256/*/*")]
    assert any(b"<title>" in blob for blob in blobs)  # the report


def test_mlflow_locally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    store = f"file://{tmp_path / 'store'}"
    results = run(mlflow_args={"tracking_uri": store, "experiment": "evals", "run_name": "first"})
    client = mlflow.tracking.MlflowClient(tracking_uri=store)
    (found,) = client.search_runs([client.get_experiment_by_name("evals").experiment_id])
    assert (found.info.status, found.data.params["limit"]) == ("FINISHED", "6")
    assert found.data.metrics["quiz.mcqa/acc.none"] == results["quiz@mcqa"]["acc"]
    files = {file.path for file in client.list_artifacts(found.info.run_id)}
    assert files >= {"results.json", "samples.jsonl", "report.html"}


KILLED = """
import sys
from multiform import evaluate
from multiform.models.dummy import DummyModel
from multiform.results.exchange import trackers
trackers.RUNNING_PAUSE = 0.0
class Slow(DummyModel):
    def loglikelihood(self, requests):
        import time
        for response in super().loglikelihood(requests):
            time.sleep(0.05)
            yield response
arguments = {"tracking_uri": sys.argv[1], "experiment": "evals"}
evaluate(model=Slow(), tasks="quiz@mcqa", progress=False, mlflow_args=arguments)
"""


@pytest.mark.process
@pytest.mark.parametrize(("signal", "status"), [("SIGKILL", "RUNNING"), ("SIGTERM", "KILLED")])
def test_a_kill_leaves_a_run_that_says_so(signal: str, status: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    store = f"file://{tmp_path / 'store'}"
    process = subprocess.Popen([sys.executable, "-c", KILLED, store])
    client = mlflow.tracking.MlflowClient(tracking_uri=store)
    end = time.monotonic() + 60
    found = None
    while found is None or "running/documents" not in found.data.metrics:
        assert time.monotonic() < end
        time.sleep(0.2)
        experiment = client.get_experiment_by_name("evals")
        found = next(iter(client.search_runs([experiment.experiment_id])), None) if experiment else None
    process.send_signal(getattr(signals, signal))
    process.wait(60)
    again = client.get_run(found.info.run_id)
    assert again.info.status == status
    assert "running/quiz.mcqa/acc.none" in again.data.metrics
