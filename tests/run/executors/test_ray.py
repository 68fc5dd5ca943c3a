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
from multiform.requests import LLOutput, LoglikelihoodRequest, Request, Response
from multiform.run.displays import Silent
from multiform.run.evaluate import evaluate
from multiform.run.executors import LocalExecutor, units
from multiform.run.executors.cluster import ClusterOptions
from multiform.run.executors.pool import PoolExecutor
from multiform.run.executors.ray import RayExecutor, RayPool
from multiform.run.executors.work_units import DocRef
from multiform.run.options import RunOptions
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


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The units that workers get."""
    units: list[Sequence[Any]] = []

    def submit(pool: RayPool, worker: int, unit: Sequence[Any]) -> None:
        units.append(unit)
        original(pool, worker, unit)

    original = RayPool.submit
    monkeypatch.setattr(RayPool, "submit", submit)
    return units


class Acting(Silent):
    """Does something with every message and after every response."""

    def __init__(self, act: Callable[[str], None]) -> None:
        self._act = act

    def message(self, text: str) -> None:
        self._act(text)

    def on_response(self) -> None:
        self._act("")


def test_of_three_nodes_one_is_killed_and_only_its_range_is_asked_again(
    slow: str, submitted: list[Sequence[Any]], tmp_path: Path
) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1)]
    cluster.add_node(num_cpus=1)
    asked = tmp_path / "asked.txt"
    noted = tmp_path / f"asked.txt.{nodes[0].node_id}"

    def kill(_: str) -> None:
        if nodes and noted.exists() and len(noted.read_text().splitlines()) > 3:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    options: dict[str, Any] = {"tasks": "quiz@mcqa+cloze", "limit": 40}
    arguments = {"asked": str(asked), "pause": 0.05}
    many = {"executor": "ray", "ray_address": cluster.address, "workers": 3, "resources": "cpu=1"}
    try:
        results = evaluate(model=slow, model_args=arguments, progress=Acting(kill), **many, **options)
    finally:
        cluster.shutdown()
    assert not nodes
    assert all(isinstance(unit[0], DocRef) for unit in submitted)
    assert results.samples() == evaluate(model="dummy", use_cache=False, **options).samples()
    usage = results.provenance["usage"]
    assert 0 < usage["requests_asked_again"] < usage["requests"] / 3
    assert usage["requests"] <= len(asked.read_text().splitlines())
    assert len(asked.read_text().splitlines()) <= usage["requests"] + usage["requests_asked_again"]


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


@pytest.mark.parametrize(
    ("fault", "reason"), [("poison", "its worker died"), ("sleepy", "its worker was silent for 5 seconds")]
)
def test_a_document_that_kills_or_silences_its_worker_is_reported_and_all_others_are_scored(
    slow: str,
    submitted: list[Sequence[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
) -> None:
    monkeypatch.setattr("multiform.run.executors.ray.SILENCE", 5.0)
    options: dict[str, Any] = {"tasks": "quiz@mcqa+cloze", "limit": 16, "use_cache": False}
    local = evaluate(model="dummy", **options)
    question = local.forms[1].samples[7].sample.prompt
    results = evaluate(
        model=slow,
        model_args={"asked": str(tmp_path / "asked.txt"), "pause": 0.0, fault: question},
        executor="ray",
        workers=2,
        resources="cpu=1",
        on_error="skip",
        **options,
    )
    assert all(isinstance(unit[0], DocRef) for unit in submitted)
    [failed] = results.forms[1].failed
    assert failed.doc_id == 7
    assert failed.reason.startswith(reason)
    assert not results.forms[0].failed
    assert results.forms[0].samples == local.forms[0].samples
    assert results.forms[1].samples == [each for each in local.forms[1].samples if each.doc_id != 7]


def test_documents_of_a_file_that_workers_do_not_have_are_rendered_by_the_driver(
    slow: str, submitted: list[Sequence[Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = "".join(f'{{"q": "What is {number} plus 1?", "a": "{number + 1}"}}\n' for number in range(12))
    file.write_text(rows)
    (tmp_path / "sums.yaml").write_text(
        "task: sums\ndataset_path: rows.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_target: a\n"
        "output_type: loglikelihood\nmetric_list: [{metric: acc}, {metric: perplexity}]\n"
    )
    options: dict[str, Any] = {"tasks": ["quiz@mcqa", str(tmp_path / "sums.yaml")], "limit": 12, "use_cache": False}
    local = evaluate(model="dummy", **options)

    def lose(message: str) -> None:
        if message.startswith("loading model"):
            file.unlink()

    results = evaluate(
        model=slow,
        model_args={"asked": str(tmp_path / "asked.txt"), "pause": 0.0},
        executor="ray",
        workers=2,
        resources="cpu=1",
        progress=Acting(lose),
        **options,
    )
    assert results.samples() == local.samples()
    assert {unit[0].form for unit in submitted if isinstance(unit[0], DocRef)} == {"quiz@mcqa", "sums"}
    assert any(isinstance(unit[0], LoglikelihoodRequest) for unit in submitted)
    [warning] = [each for each in caplog.messages if "a worker cannot read the documents" in each]
    assert warning.startswith("sums: ")
    assert "rows.jsonl" in warning


def test_a_driver_that_is_killed_and_started_again_asks_nothing_twice_that_is_stored(runs: Runs) -> None:
    many = ("--executor", "ray", "--ray_address", "local", "--workers", "2", "--verbosity", "INFO")
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
    assert "the driver renders the documents" not in err.decode()
    (runs.folder / "answers.db").unlink()
    assert runs.finish()["results"] == results


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_on_ray_with_what_is_in_flight_stored(runs: Runs, signum: int) -> None:
    many = ("--executor", "ray", "--ray_address", "local", "--workers", "2", "--verbosity", "INFO")
    process = runs.start(*many, pause=0.05)
    runs.await_responses(60)
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signum
    assert "the driver renders the documents" not in err.decode()
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
