"""LiteLLM as one model: the real library against a loopback server of OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import evaluate
from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.servers import litellm_chat
from multiform.requests import Completion, FailedRequest, GenerationRequest
from tests.models.fake_server import FakeServer, Fault, fake_server
from tests.models.fake_server_fixture import completion_of, shorten_waits

KEY = "sk-verysecret"
pytestmark = pytest.mark.filterwarnings("ignore")  # those of litellm itself


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm_chat, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"litellm is not installed; pip install 'multiform\[litellm\]'"):
        models.get("litellm")(model="openai/tiny")


def test_forms_that_need_log_likelihoods_are_refused() -> None:
    with pytest.raises(UsageError, match=r"log-likelihoods"):
        evaluate(model="litellm", model_args={"model": "openai/tiny"}, tasks="quiz@mcqa", limit=2, progress=False)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    pytest.importorskip("litellm", reason="litellm is not installed: pip install 'multiform[litellm]'")
    shorten_waits(monkeypatch)
    with fake_server() as running:
        yield running


def model(server: FakeServer, **arguments: Any) -> Any:
    return models.get("litellm")(model="openai/tiny", base_url=server.base_url, api_key=KEY, **arguments)


def test_a_completion_is_read_and_cut(server: FakeServer) -> None:
    server.reply = lambda prompt: "four. And more"
    assert completion_of(model(server), "2 + 2?", until=["."], max_gen_toks=8).text == "four"
    payload = server.asked[-1].payload
    assert (payload["model"], payload["messages"]) == ("tiny", [{"role": "user", "content": "2 + 2?"}])
    assert (payload["max_tokens"], payload["temperature"], payload["seed"]) == (8, 0.0, 1234)


def test_a_run_equals_one_over_openais_interface(server: FakeServer, tmp_path: Path) -> None:
    options: dict[str, Any] = {"tasks": "quiz@generate", "limit": 6, "progress": False, "use_cache": False}
    arguments = {"base_url": server.base_url, "api_key": KEY}
    first = evaluate(model="openai-chat", model_args={**arguments, "model": "tiny"}, **options)
    second = evaluate(
        model="litellm",
        model_args={**arguments, "model": "openai/tiny"},
        output_path=tmp_path,
        log_samples=True,
        prices=_prices(tmp_path),
        **options,
    )
    assert second["quiz@generate"]["exact_match"] == first["quiz@generate"]["exact_match"]
    assert not any(KEY in file.read_text() for file in tmp_path.rglob("*.json*"))


def _prices(folder: Path) -> Path:
    (folder / "prices.toml").write_text('"openai/tiny" = [1, 2]\n')
    return folder / "prices.toml"


def test_errors_that_pass_are_retried_and_others_are_not(server: FakeServer) -> None:
    server.fail(2, status=503)
    assert isinstance(completion_of(model(server), "a"), Completion)
    server.fail(1, status=400, message=f"too long, {KEY}")
    failed = completion_of(model(server), "b")
    assert isinstance(failed, FailedRequest)
    assert "too long" in failed.reason
    assert KEY not in failed.reason
    server.fail(9, status=401, message=f"Incorrect API key: {KEY}")
    server.probe_faults.append(Fault(status=401))
    with pytest.raises(ModelError, match="check the model's name and the provider's key") as caught:
        completion_of(model(server), "c")
    assert KEY not in str(caught.value)


def test_many_requests_are_in_flight_and_all_are_answered(server: FakeServer) -> None:
    server.delay = 0.02
    requests = [GenerationRequest.of(f"question {i}", {}) for i in range(40)]
    outputs = dict(model(server, num_concurrent=8).generate(requests))
    assert sorted(outputs) == list(range(40))
    assert all(output.text == f"You said: question {i}" for i, output in outputs.items())
    assert 1 < server.busiest <= 8


def test_an_argument_that_the_provider_lacks_is_refused(server: FakeServer) -> None:
    with pytest.raises(ModelError, match="takes no banana"):
        completion_of(model(server), "a", banana=1)
    with pytest.raises(UsageError, match="give PROVIDER/MODEL"):
        completion_of(models.get("litellm")(model="no-such-model-anywhere"), "a")
    with pytest.raises(UsageError, match="numconcurrent"):
        model(server, numconcurrent=3)


def test_prices_are_those_of_litellm(server: FakeServer) -> None:
    price = models.get("litellm")(model="gpt-4.1-mini").price()
    assert price is not None
    assert price.prompt == pytest.approx(0.4)
    assert model(server).price() is None  # another server has its own prices


def test_a_budget_for_thoughts_is_refused(server: FakeServer) -> None:
    with pytest.raises(UsageError, match="'litellm' has no thinking_budget"):
        completion_of(model(server), "a", thinking_budget=512)


def test_the_beginning_of_an_answer_is_in_the_message_of_the_user(server: FakeServer) -> None:
    begun = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "The answer is"}]
    messages = model(server).apply_chat_template(begun, add_generation_prompt=False)
    assert messages == [{"role": "user", "content": "2 + 2?\nThe answer is"}]


def test_results_have_the_arguments_without_the_key(server: FakeServer) -> None:
    made = model(server, reasoning_effort="low")
    assert made.identity == f"litellm openai/tiny {server.base_url} seed=1234 reasoning_effort=low"
    arguments = made.info()["model_args"]
    assert (arguments["api_base"], arguments["api_key"], arguments["seed"]) == (server.base_url, "***", 1234)


def test_headers_are_refused(server: FakeServer) -> None:
    with pytest.raises(UsageError, match="'headers' is not supported"):
        model(server, headers={"X-Team": "evals"})
