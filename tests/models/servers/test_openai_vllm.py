"""A real server: vLLM with the bundled model gives the log-likelihoods that the model gives in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.models.servers.openai_completions import OpenAICompletions
from multiform.models.vllm.engine import PROCESSOR
from multiform.models.vllm.queries import Abilities
from tests.models.real_server import real_server

pytestmark = [pytest.mark.slow, pytest.mark.bundled]


@pytest.fixture(scope="module")
def served(bundled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The arguments of a model on a running server; vLLM has an environment of its own, as its packages are pinned."""
    python = os.environ.get("VLLM_PYTHON")
    if not python:
        pytest.skip("VLLM_PYTHON names no Python with vLLM: make test-vllm")
    folder = tmp_path_factory.mktemp("model")
    bundled.model.save_pretrained(folder)
    bundled.encoder.tokenizer.save_pretrained(folder)
    options = ["--dtype", "float32", "--max-model-len", "2048", "--enforce-eager", "--host", "127.0.0.1"]

    def command(port: int) -> list[str]:
        server = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *options]
        return [*server, "--logits-processors", PROCESSOR, "--port", str(port)]

    variables = {
        "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    with real_server(command, tmp_path_factory.mktemp("log") / "server.log", variables) as url:
        yield {"model": str(folder), "base_url": f"{url}/v1/completions", "num_concurrent": 4, "folder": folder}


@pytest.mark.parametrize(
    ("abilities", "others"),
    [
        (None, "forced tokens"),  # as the server says
        (Abilities(forced=False, labels=8), "echoed prompts"),
        (Abilities(forced=False), None),
    ],
)
def test_its_scores_are_those_of_the_model_in_this_process(
    abilities: Abilities | None, others: str | None, served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if abilities is not None:
        monkeypatch.setattr(OpenAICompletions, "abilities", abilities)
    folder: Path = served["folder"]
    tasks = ["quiz@mcqa", "quiz@cloze"]
    model = OpenAICompletions(model=served["model"], base_url=served["base_url"], tokenizer=str(folder))
    theirs = multiform.evaluate(model=model, tasks=tasks, limit=8, use_cache=False)
    ours = multiform.evaluate(
        model="hf", model_args={"pretrained": str(folder), "dtype": "float32"}, tasks=tasks, limit=8, use_cache=False
    )
    assert model.info().get("server_scoring", {}).get("others") == others
    for served_row, local_row in zip(theirs.samples(), ours.samples(), strict=True):
        assert served_row["prompt"] == local_row["prompt"]
        assert served_row["loglikelihoods"] == pytest.approx(local_row["loglikelihoods"], abs=1e-3)
        assert served_row["picked"] == local_row["picked"]
