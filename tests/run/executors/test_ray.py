"""Real Ray workers: their responses equal those of one process, also when a node or the driver dies."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models import register_model
from multiform.models.dummy import DummyModel
from multiform.requests import FailedRequest, LLOutput, LoglikelihoodRequest, Request, Response
from multiform.run.evaluate import evaluate
from multiform.run.executors import LocalExecutor, units
from multiform.run.executors.cluster import ClusterOptions
from multiform.run.executors.pool import PoolExecutor
from multiform.run.executors.ray import RayExecutor, RayPool
from multiform.run.options import RunOptions
from multiform.run.progress import Silent
from multiform.run.setup import load_forms
from multiform.stopping import request_stop, stoppable
from tests.run.conftest import Runs

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'multiform[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class SlowModel(DummyModel):
    """Notes what it is asked, on each node, takes its time, and dies of one request."""

    stored = True

    def __init__(self, *, asked: str, pause: float = 0.02, poison: str = "", sleepy: str = "") -> None:
        super().__init__()
        self.asked, self.pause, self.poison, self.sleepy = asked, pause, poison, sleepy

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for position, output in super().loglikelihood(requests):
            for path in (self.asked, f"{self.asked}.{ray.get_runtime_context().get_node_id()}"):
                with open(path, "a") as file:
                    print(repr(requests[position]), file=file)
            if self.poison and self.poison in requests[position].context:
                os._exit(1)
            if self.sleepy and self.sleepy in requests[position].context:
                time.sleep(3600)
            time.sleep(self.pause)
            yield position, output


@pytest.fixture
def slow() -> str:
    """The name of the slow model, whose class goes to the workers by value."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    register_model("slow")(SlowModel)
    return "slow"


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model whose context holds few-shot prompts."""
    pytest.importorskip("torch")
    from tests.tiny_models import llama_config, make_tokenizer, save_random

    tokenizer = make_tokenizer(bos=False)
    config = llama_config(len(tokenizer), max_position_embeddings=4096, initializer_range=0.4)
    return save_random(tmp_path_factory.mktemp("models") / "tiny", config, tokenizer)


def quiz_requests(forms: str = "quiz@mcqa+cloze", limit: int = 40, shots: int = 2) -> list[Request]:
    tasks, _ = load_forms(RunOptions(tasks=forms, num_fewshot=shots, limit=limit))
    samples = [task.sample(doc_id, doc) for task in tasks for doc_id, doc in task.docs()]
    return list(dict.fromkeys(instance.request for sample in samples for instance in sample.instances))


def test_two_workers_score_as_one_process_and_compute_hardly_more(tiny_folder: Path) -> None:
    from multiform.models.hf.model import HFModel

    requests = quiz_requests("quiz@mcqa+cloze+generate", limit=60)
    local = HFModel(str(tiny_folder), device="cpu")
    expected: dict[Request, Any] = dict(LocalExecutor(local).run(units(requests)))
    executor = RayExecutor(ClusterOptions.of("local", 2, "cpu=1"))
    try:
        model = executor.load("hf", {"pretrained": str(tiny_folder), "device": "cpu"}, Silent())
        outputs: dict[Request, Any] = dict(executor.run(units(requests)))
    finally:
        executor.close()
    assert model.identity == local.identity
    assert outputs.keys() == expected.keys()
    for request, output in outputs.items():
        if isinstance(output, LLOutput):
            assert output.loglikelihood == pytest.approx(expected[request].loglikelihood, abs=1e-4)
            assert (output.is_greedy, output.tokens) == (expected[request].is_greedy, expected[request].tokens)
        else:
            assert output == expected[request]
    assert executor.retry_count == 0
    usage = local.usage()
    assert usage is not None
    assert executor.usage.computed_tokens <= 1.05 * usage.computed_tokens
    assert executor.usage.unshared == usage.unshared


def test_a_run_on_ray_gives_the_results_of_a_local_one(tiny_folder: Path) -> None:
    options: dict[str, Any] = {
        "tasks": "quiz@mcqa+cloze",
        "model": "hf",
        "model_args": {"pretrained": str(tiny_folder)},
        "limit": 20,
        "num_fewshot": 1,
    }
    local = evaluate(**options, use_cache=False)
    evaluate(**{**options, "limit": 2})  # so that the model is known, and some of the responses
    remote = evaluate(**options, executor="ray", workers=2, resources="cpu=1")
    assert {name: dict(remote[name]) for name in remote} == {name: dict(local[name]) for name in local}


def outputs_when_a_node_is_killed(
    model: str,
    arguments: dict[str, Any],
    requests: list[Request],
    notes: Callable[[str], Path],
    after: int,
) -> tuple[dict[Request, Any], PoolExecutor]:
    """The outputs of three nodes, and their executor; a node is killed when it has noted more than `after` requests.

    `notes` gives the file to which the node of an id writes a line for each request that it runs.
    """
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    noted = notes(doomed.node_id)
    pool = RayPool(ClusterOptions.of(cluster.address, 3, "cpu=1"), model, arguments, Silent())
    executor = PoolExecutor(pool)
    outputs: dict[Request, Any] = {}
    is_killed = False
    try:
        pool.wait_until_loaded(3)
        for request, output in executor.run(units(requests)):
            assert request not in outputs
            outputs[request] = output
            if not is_killed and noted.exists() and len(noted.read_text().splitlines()) > after:
                is_killed = True
                cluster.remove_node(doomed, allow_graceful=False)
    finally:
        pool.close()
        cluster.shutdown()
    assert is_killed
    return outputs, executor


def test_of_three_nodes_one_is_killed_and_only_its_unit_is_asked_again(slow: str, tmp_path: Path) -> None:
    requests = quiz_requests()
    asked = tmp_path / "asked.txt"
    in_first_unit = 3
    outputs, executor = outputs_when_a_node_is_killed(
        slow,
        {"asked": str(asked), "pause": 0.05},
        requests,
        lambda node: tmp_path / f"asked.txt.{node}",
        in_first_unit,
    )
    assert outputs == dict(LocalExecutor(DummyModel()).run(units(requests)))
    times = len(asked.read_text().splitlines())
    assert 0 < executor.retry_count < len(requests) / 3
    assert len(requests) <= times <= len(requests) + executor.retry_count


def test_a_node_that_is_killed_changes_no_score_and_costs_few_tokens(
    slow: str, tiny_folder: Path, tmp_path: Path
) -> None:
    from multiform.models.hf.model import HFModel

    class SlowHF(HFModel):
        """Takes its time, and notes on which nodes it responds."""

        def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
            for position, output in super().loglikelihood(requests):
                with open(tmp_path / ray.get_runtime_context().get_node_id(), "a") as file:
                    print(position, file=file)
                time.sleep(0.02)
                yield position, output

    register_model("slow-hf")(SlowHF)
    requests = quiz_requests(limit=100)
    local = HFModel(str(tiny_folder), device="cpu")
    planned = local.workload(requests)
    expected: dict[Request, Any] = dict(LocalExecutor(local).run(units(requests)))
    arguments = {"pretrained": str(tiny_folder), "device": "cpu"}
    outputs, executor = outputs_when_a_node_is_killed("slow-hf", arguments, requests, tmp_path.joinpath, 20)
    assert outputs.keys() == expected.keys()
    for request, output in outputs.items():
        assert output.loglikelihood == pytest.approx(expected[request].loglikelihood, abs=1e-4)
        assert (output.is_greedy, output.tokens) == (expected[request].is_greedy, expected[request].tokens)
    assert 0 < executor.retry_count < len(requests) / 6
    assert planned is not None
    assert executor.usage.computed_tokens <= 1.05 * planned.prefill


def test_a_request_that_kills_its_worker_is_reported_and_the_others_get_a_response(slow: str, tmp_path: Path) -> None:
    requests: list[Request] = [LoglikelihoodRequest(f"question {number}.", " x") for number in range(40)]
    arguments = {"asked": str(tmp_path / "asked.txt"), "pause": 0.0, "poison": "question 7."}
    executor = RayExecutor(ClusterOptions.of("local", 2, "cpu=1"))
    try:
        executor.load(slow, arguments, Silent())
        outputs = dict(executor.run(units(requests)))
    finally:
        executor.close()
    failed = outputs.pop(requests[7])
    assert isinstance(failed, FailedRequest)
    assert "its worker died" in failed.reason
    assert outputs == dict(LocalExecutor(DummyModel()).run(units([*requests[:7], *requests[8:]])))


def test_a_worker_that_is_alive_and_silent_is_replaced_and_the_others_get_a_response(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiform.run.executors.ray.SILENCE", 3.0)
    requests: list[Request] = [LoglikelihoodRequest(f"question {number}.", " x") for number in range(16)]
    arguments = {"asked": str(tmp_path / "asked.txt"), "pause": 0.0, "sleepy": "question 7."}
    executor = RayExecutor(ClusterOptions.of("local", 2, "cpu=1"))
    try:
        executor.load(slow, arguments, Silent())
        outputs = dict(executor.run(units(requests)))
    finally:
        executor.close()
    failed = outputs.pop(requests[7])
    assert isinstance(failed, FailedRequest)
    assert "silent for 3 seconds" in failed.reason
    assert outputs == dict(LocalExecutor(DummyModel()).run(units([*requests[:7], *requests[8:]])))


def test_a_driver_that_is_killed_and_started_again_asks_nothing_twice_that_is_stored(runs: Runs) -> None:
    many = ("--executor", "ray", "--ray_address", "local", "--workers", "2")
    process = runs.start(*many, pause=0.05)
    runs.await_responses(60)
    time.sleep(1.0)  # so that some of them have come
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    runs.asked()
    with sqlite3.connect(runs.folder / "answers.db") as database:
        stored = database.execute("SELECT count(*) FROM answers").fetchone()[0]
    assert stored > 0
    process = runs.start(*many)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    asked = runs.asked()
    assert len(asked) == len(set(asked)) == 160 - stored
    results = json.loads(out)["results"]
    assert f"{stored} of them cached" in err.decode()
    (runs.folder / "answers.db").unlink()
    assert runs.finish()["results"] == results


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_on_ray_with_what_is_in_flight_stored(runs: Runs, signum: int) -> None:
    process = runs.start("--executor", "ray", "--ray_address", "local", "--workers", "2", pause=0.05)
    runs.await_responses(60)
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signum
    assert "the responses so far are stored; run the same command again to go on" in err.decode()
    with sqlite3.connect(runs.folder / "answers.db") as database:
        stored = database.execute("SELECT count(*) FROM answers").fetchone()[0]
    assert 60 <= stored == len(runs.asked()) < 160


def test_workers_of_a_stopped_run_serve_the_next_one(slow: str, tmp_path: Path) -> None:
    """As in a sweep, where too many documents of a run fail, and the next run has the same workers."""
    requests = quiz_requests()
    executor = RayExecutor(ClusterOptions.of("local", 2, "cpu=1"))
    try:
        executor.load(slow, {"asked": str(tmp_path / "asked.txt")}, Silent())
        with stoppable():
            stream = executor.run(units(requests))
            answered = dict([next(stream)])
            request_stop()
            answered |= dict(stream)
        again = dict(executor.run(units(requests)))
    finally:
        executor.close()
    assert 0 < len(answered) < len(requests)
    assert again == dict(LocalExecutor(DummyModel()).run(units(requests)))
    assert executor.retry_count == 0


def test_workers_are_in_the_folder_of_the_driver_and_as_important_as_it(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Placed(DummyModel):
        def info(self) -> dict[str, Any]:
            return {"folder": os.getcwd(), "niceness": os.nice(0)}

    register_model("placed")(Placed)
    monkeypatch.chdir(tmp_path)
    executor = RayExecutor(ClusterOptions.of("local", 1, "cpu=1"))
    try:
        info = executor.load("placed", {}, Silent()).info()
    finally:
        executor.close()
    assert info == {"folder": str(tmp_path), "niceness": os.nice(0)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 500}, "--workers: 500 workers with cpu=1 do not fit on the cluster"),
        ({"resources": "gpu=64"}, "--resources: a worker with gpu=64 fits on no node"),
        ({"ray_address": "auto"}, "--ray_address: no Ray cluster at 'auto'"),
    ],
)
def test_a_cluster_that_cannot_be_is_one_message(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(model="dummy", tasks="quiz@mcqa", limit=4, executor="ray", **options)
    assert str(caught.value).startswith(message)


def test_a_model_that_fits_on_no_worker_is_one_message(slow: str, tmp_path: Path) -> None:
    class TooLarge(DummyModel):
        def __init__(self) -> None:
            os._exit(137)  # as the kernel does when memory runs out

    register_model("too-large")(TooLarge)
    with pytest.raises(UsageError, match="the model fits on no worker: its process died"):
        evaluate(model="too-large", tasks="quiz@mcqa", limit=4, executor="ray", workers=1, resources="cpu=1")


def test_wrong_arguments_of_a_model_are_said_as_without_ray() -> None:
    with pytest.raises(UsageError, match="model 'dummy' has no argument 'sead'"):
        evaluate(model="dummy", model_args="sead=1", tasks="quiz@mcqa", limit=4, executor="ray", workers=1)
