"""A real server: `transformers serve` with the bundled model writes what the model writes in this process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.errors import UsageError
from multiform.models.servers.openai_chat import OpenAIChat
from multiform.requests import Completion, GenerationRequest
from tests.models.real_server import real_server

pytestmark = [pytest.mark.slow, pytest.mark.bundled]

_SERVE = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
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

    def command(port: int) -> list[str]:
        return [sys.executable, "-c", _SERVE, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)]

    log = tmp_path_factory.mktemp("log") / "server.log"
    with real_server(lambda port: [*command(port), "--device", "cpu"], log) as url:
        yield {"model": str(folder), "base_url": f"{url}/v1", "num_concurrent": 2}


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
