"""A real server: `transformers serve` with the bundled model writes what the model writes in this process."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import multiform
from multiform.errors import UsageError
from multiform.models.openai import OpenAIChat
from multiform.requests import Completion, GenerationRequest

pytestmark = [pytest.mark.slow, pytest.mark.bundled]

_SERVE = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
_READY = 180.0
QUESTIONS = ["What is 2 + 2?", "Name the capital of France.", "Write one sentence about the sea.", "Count to five."]


@pytest.fixture(scope="module")
def served(bundled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The arguments of a model on a running server."""
    for package in ("fastapi", "uvicorn", "openai"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-servers")
    folder = tmp_path_factory.mktemp("model")
    bundled.model.save_pretrained(folder)
    bundled.encoder.tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _SERVE, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    log = tmp_path_factory.mktemp("log") / "server.log"
    with log.open("w") as out:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        server = subprocess.Popen([*command, "--device", "cpu"], stdout=out, stderr=out, env=environment)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield {"model": str(folder), "base_url": f"http://127.0.0.1:{port}/v1", "num_concurrent": 2}
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < _READY and server.poll() is None:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


def test_it_writes_what_the_model_writes_here(served: dict[str, Any], bundled: Any) -> None:
    def written(model: Any) -> list[str]:
        chats = [model.apply_chat_template([{"role": "user", "content": question}]) for question in QUESTIONS]
        responses = dict(model.generate([GenerationRequest.of(chat, {"max_gen_toks": 16}) for chat in chats]))
        assert all(isinstance(response, Completion) for response in responses.values())
        return [responses[position].text for position in range(len(chats))]

    assert written(OpenAIChat(**served)) == written(bundled)


def test_a_whole_run_and_what_is_stored(served: dict[str, Any], tmp_path: Path) -> None:
    def run() -> multiform.Results:
        return multiform.evaluate(
            model="openai-chat",
            model_args=served,
            tasks=["quiz@generate"],
            limit=4,
            gen_kwargs={"max_gen_toks": 12},
            apply_chat_template=True,
            use_cache=tmp_path / "answers.db",
        )

    first = run()
    assert 0 <= first["quiz@generate"]["exact_match,none"] <= 1
    assert run().provenance["model_identity"] == first.provenance["model_identity"]


@pytest.mark.parametrize("model", ["openai-chat", "openai-completions"])
def test_it_gives_no_log_likelihoods_and_is_refused(served: dict[str, Any], model: str) -> None:
    with pytest.raises(UsageError, match=r"gives no log-likelihoods, which 'quiz@mcqa' scores.*@generate"):
        multiform.evaluate(model=model, model_args=served, tasks=["quiz@mcqa"], limit=2)
