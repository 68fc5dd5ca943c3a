"""The workers that a run needs of a cluster, and whether they fit on its nodes."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from multiform.arguments import parse_arguments
from multiform.errors import UsageError, excerpt

logger = logging.getLogger("multiform")

#: Where a model runs: in this process, or on the workers of a Ray cluster.
EXECUTORS = ("local", "ray")
#: Ray's names of its predefined resources.
_NAMES = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}
#: Models that transformers loads, on one device unless their arguments say otherwise.
_TRANSFORMERS = ("hf", "hf-auto", "huggingface", "hf-multimodal", "bundled")
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
#: Seconds to wait for a response from an address.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster at an address, or one on this machine where there is none.

    `workers` is None for as many as fit. `resources` are those of each worker by Ray's names; where there are none,
    a worker gets a core, and a GPU on nodes that have some.
    """

    address: str | None = None
    workers: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, address: str | None, workers: int | None, resources: str | Mapping[str, Any] | None) -> ClusterOptions:
        """The options of a run, checked."""
        if find_spec("ray") is None:
            raise UsageError("Ray is not installed", where="--executor ray", hint="pip install 'multiform[ray]'")
        address = address or os.environ.get("RAY_ADDRESS") or None
        if address and "://" in address:
            hint = "start the run on a node of the cluster, with --ray_address auto"
            raise UsageError("Ray's client gives no stream of responses", where="--ray_address", hint=hint)
        if address and address not in ("auto", "local") and not re.fullmatch(r"[^:\s]+:\d{1,5}", address):
            message = f"expected HOST:PORT or auto, got {excerpt(address)}"
            raise UsageError(message, where="--ray_address", hint="ray status says the address")
        return cls(address=address, workers=workers, resources=parse_resources(resources))

    def check_model(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Refuse model arguments that choose a GPU, which Ray does; warn where a worker would use one GPU of several.

        The warning is for models of transformers only: how others use GPUs is not known.
        """
        device = str(arguments.get("device") or "")
        if re.fullmatch(r"cuda:\d+", device):
            message = (
                f"Ray gives each worker GPUs of its own, whose numbers begin at 0: 'device={device}' cannot be meant"
            )
            raise UsageError(message, where="--device", hint="give device=cuda or leave it out, and --resources gpu=1")
        gpus = self.resources.get("GPU", 0)
        if gpus > 1 and name in _TRANSFORMERS and not any(arguments.get(key) for key in ("parallelize", "device_map")):
            logger.warning(
                "--resources: each worker gets gpu=%g, and model '%s' uses one of them; "
                "add parallelize=True to --model_args, or give gpu=1",
                gpus,
                name,
            )

    def fit(self, nodes: Sequence[Mapping[str, float]]) -> ClusterOptions:
        """The workers and resources that these nodes can hold; an error where they cannot.

        >>> ClusterOptions().fit([{"CPU": 2.0}, {"CPU": 4.0}]).workers
        6
        """
        has_gpus = any(node.get("GPU", 0) >= 1 for node in nodes)
        resources = self.resources or ({"CPU": 1.0, "GPU": 1.0} if has_gpus else {"CPU": 1.0})
        room = sum(min(int(node.get(name, 0) // amount) for name, amount in resources.items()) for node in nodes)
        resource_list = resources_text(resources)
        node_list = "; ".join(resources_text(node) for node in nodes[:5]) + (" ..." if len(nodes) > 5 else "")
        if not room:
            message = f"a worker with {resource_list} fits on no node of the cluster, which has {node_list}"
            raise UsageError(message, where="--resources", hint="request less, or add a node that has as much")
        if self.workers is not None and self.workers > room:
            message = f"{self.workers} workers with {resource_list} do not fit on the cluster, which has {node_list}"
            hint = f"give --workers {room} or fewer, or smaller --resources"
            raise UsageError(message, where="--workers", hint=hint)
        return ClusterOptions(address=self.address, workers=self.workers or room, resources=resources)


def parse_resources(resources: str | Mapping[str, Any] | None) -> dict[str, float]:
    """The resources of a worker, by Ray's names.

    >>> parse_resources("gpu=1,cpu=8,memory=40GB")
    {'GPU': 1.0, 'CPU': 8.0, 'memory': 40000000000.0}
    """
    parsed = {}
    for name, value in parse_arguments(resources, where="--resources").items():
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", str(value).lower())
        is_memory = name.lower() == "memory"
        if match is None or (match[2] and not is_memory) or not float(match[1]):
            message = f"expected an amount above 0 of '{name}', got {excerpt(value)}"
            raise UsageError(message, where="--resources", hint="give e.g. gpu=1,cpu=8,memory=40GB")
        parsed[_NAMES.get(name.lower(), name)] = float(match[1]) * _BYTES[match[2]]
    return parsed


def check_address(address: str) -> None:
    """Refuse an address without a Ray cluster; Ray itself would wait for minutes and then end the process."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE) as connection:
            is_grpc = bool(os.environ.get("RAY_USE_TLS")) or _speaks_grpc(connection)
    except (OSError, OverflowError) as error:
        raise no_cluster(address, str(error)) from error
    if not is_grpc:
        raise no_cluster(address, "what listens there is something else, such as its dashboard")


def _speaks_grpc(connection: socket.socket) -> bool:
    """Whether the server responds to HTTP/2's connection preface with a SETTINGS frame, as a gRPC server does."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    received = b""
    while len(received) < 4 and (chunk := connection.recv(64)):
        received += chunk
    return received[3:4] == b"\x04"


def no_cluster(address: str, why: str) -> UsageError:
    """The error that there is no cluster at an address."""
    hint = "ray status says the address of a cluster; leave it out to start one on this machine"
    return UsageError(f"no Ray cluster at '{address}': {why}", where="--ray_address", hint=hint)


def resources_text(node: Mapping[str, float]) -> str:
    """The resources of a node in words, without those that Ray adds for internal use."""
    resources = {name: value for name, value in node.items() if ":" not in name and name != "object_store_memory"}
    amounts = {name.lower(): f"{n / 1e9:.1f}GB" if n >= 1e6 else f"{n:g}" for name, n in sorted(resources.items())}
    return ", ".join(f"{name}={amount}" for name, amount in amounts.items()) or "nothing"
