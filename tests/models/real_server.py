"""Real servers on this machine, for slow tests."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

#: Seconds. vLLM is there after one minute, on a machine that others keep busy after ten.
_READY = 900.0


@contextmanager
def real_server(
    command: Callable[[int], Sequence[str]], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a server by its command for a port, and give its address once it responds to ``/health``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("w") as out:
        variables = {**os.environ, "HF_HUB_OFFLINE": "1", **(environment or {})}
        server = subprocess.Popen(list(command(port)), stdout=out, stderr=out, env=variables)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < _READY and server.poll() is None:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
