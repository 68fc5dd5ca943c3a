"""Which workers fit on a cluster, and what is said where they do not. Without Ray itself."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.run.evaluate import evaluate
from multiform.run.executors.cluster import ClusterOptions, check_address, parse_resources

NODES = [{"CPU": 8.0, "GPU": 2.0, "memory": 64e9, "node:10.0.0.1": 1.0}, {"CPU": 4.0, "memory": 16e9}]


@pytest.mark.parametrize(
    ("resources", "workers"),
    [({"CPU": 4.0}, 3), ({"GPU": 1.0, "CPU": 2.0}, 2), ({"GPU": 0.5}, 4), ({"memory": 20e9}, 3), ({}, 2)],
)
def test_as_many_workers_as_fit_on_the_nodes(resources: dict[str, float], workers: int) -> None:
    assert ClusterOptions(resources=resources).fit(NODES).workers == workers


def test_a_worker_gets_a_gpu_where_there_are_some_and_else_a_core() -> None:
    assert ClusterOptions().fit(NODES).resources == {"CPU": 1.0, "GPU": 1.0}
    assert ClusterOptions().fit(NODES[1:]).resources == {"CPU": 1.0}


def test_more_workers_than_fit_are_refused_with_the_number_that_fits() -> None:
    with pytest.raises(UsageError, match=r"5 workers with cpu=4 do not fit on the cluster.*give --workers 3 or fewer"):
        ClusterOptions(workers=5, resources={"CPU": 4.0}).fit(NODES)


def test_a_worker_that_fits_on_no_node_is_refused() -> None:
    with pytest.raises(UsageError, match=r"memory=80.0GB fits on no node of the cluster, which has cpu=8, gpu=2"):
        ClusterOptions(workers=1, resources={"memory": 80e9}).fit(NODES)


@pytest.mark.parametrize("resources", ["gpu=0", "cpu=-1", "cpu=many", "cpu=4GB", "gpu"])
def test_resources_that_cannot_be_meant_are_refused(resources: str) -> None:
    with pytest.raises(UsageError, match="--resources"):
        parse_resources(resources)


def test_custom_resources_keep_their_name() -> None:
    assert parse_resources({"TPU": 4, "cpu": 1}) == {"TPU": 4.0, "CPU": 1.0}


def test_a_numbered_device_is_refused_as_workers_count_their_own_gpus() -> None:
    with pytest.raises(UsageError, match=r"--device: Ray gives each worker GPUs .* 'device=cuda:1' cannot be meant"):
        ClusterOptions().check_model("hf", {"device": "cuda:1"})
    ClusterOptions().check_model("hf", {"device": "cuda"})


@pytest.mark.parametrize(
    ("model", "arguments", "is_warned"),
    [
        ("hf", {}, True),
        ("hf", {"parallelize": True}, False),
        ("hf", {"device_map": "auto"}, False),
        ("mine", {}, False),
    ],
)
def test_a_model_that_would_use_one_of_several_gpus_is_said(
    model: str, arguments: dict[str, Any], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ClusterOptions(resources={"GPU": 2.0}).check_model(model, arguments)
    assert ("each worker gets gpu=2, and model 'hf' uses one of them" in caplog.text) is is_warned


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is asked for first")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", "Ray's client gives no stream"),
        ("head", "expected HOST:PORT or auto, got 'head'"),
        ("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1'"),
    ],
)
def test_a_wrong_address_is_one_message(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        evaluate(model="dummy", tasks="quiz@mcqa", limit=2, executor="ray", ray_address=address)
    assert caught.value.where == "--ray_address"


@pytest.fixture
def listening() -> Iterator[Callable[[bytes], str]]:
    """The address of a server that replies to every connection with these bytes; with none, it says nothing."""
    servers: list[socket.socket] = []

    def serve(server: socket.socket, reply: bytes) -> None:
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            servers.append(connection)
            if reply:
                connection.recv(1000)
                connection.sendall(reply)

    def start(reply: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=serve, args=(server, reply), daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for each in servers:
        each.close()


def test_an_address_of_something_else_is_one_message(
    listening: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiform.run.executors.cluster._PATIENCE", 0.2)
    check_address(listening(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))))
    with pytest.raises(UsageError, match="what listens there is something else, such as its dashboard"):
        check_address(listening(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(UsageError, match="timed out"):
        check_address(listening(b""))


@pytest.mark.parametrize("option", [{"workers": 2}, {"resources": "cpu=1"}, {"ray_address": "auto"}])
def test_options_of_workers_need_ray(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there are no workers without Ray; add --executor ray"):
        evaluate(model="dummy", tasks="quiz@mcqa", limit=2, **option)


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(UsageError, match="executor: expected one of local, ray, got 'spark'"):
        evaluate(model="dummy", tasks="quiz@mcqa", limit=2, executor="spark")


@pytest.mark.process
def test_without_ray_the_command_says_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['ray'] = None\nfrom multiform.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", hidden, "run", "--tasks", "quiz", "--model", "dummy", "--executor", "ray"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "error: --executor ray: Ray is not installed; pip install 'multiform[ray]'\n",
    )
