"""Anthropic's messages, asked of a fake that follows their documented format."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import multiform
from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.servers.anthropic import AnthropicChat
from multiform.requests import Completion, FailedRequest, LoglikelihoodRequest
from tests.models.fake_server import FakeServer, Fault, fake_server, prompt_of, words
from tests.models.fake_server_fixture import asked_with_image, check_a_whole_run, completion_of, shorten_waits

#: What the fake thinks before each of its replies.
THOUGHT = "Hm."


@dataclass
class FakeAnthropic(FakeServer):
    """Responds as documented for POST /v1/messages and GET /v1/models/{id}, and refuses what the interface refuses."""

    def respond(self, path: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        if path != "/v1/messages":
            return None
        assert set(payload) <= {"model", "max_tokens", "messages", "system", "temperature", "stop_sequences", "top_k"}
        assert all(message["role"] in ("user", "assistant") for message in payload["messages"])
        assert all(stop.strip() for stop in payload.get("stop_sequences", ()))
        last = payload["messages"][-1]
        assert last["role"] == "user" or last["content"] == last["content"].rstrip()
        text = self.reply(prompt_of(payload))
        kept = "".join(words(text)[: payload["max_tokens"]])
        reason = "end_turn" if kept == text else "max_tokens"
        return {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-tiny-20250101",
            "content": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}, {"type": "text", "text": kept}],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 4},
        }

    def error(self, fault: Fault) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "overloaded_error", "message": fault.message}, "request_id": "r1"}

    def model_list(self, path: str) -> dict[str, Any]:
        assert path == "/v1/models/claude-tiny"
        return {
            "type": "model",
            "id": "claude-tiny",
            "display_name": "Tiny",
            "created_at": "2025-02-19T00:00:00Z",
            **(self.model_facts or {}),
        }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    shorten_waits(monkeypatch)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    with fake_server(state=FakeAnthropic()) as running:
        yield running


def model(server: FakeServer, **arguments: Any) -> AnthropicChat:
    return AnthropicChat(model="claude-tiny", base_url=server.base_url, **arguments)


@pytest.mark.parametrize("name", ["anthropic", "anthropic-chat", "anthropic-chat-completions"])
def test_it_is_registered_under_its_name_and_those_of_lm_eval(name: str) -> None:
    assert models.get(name).load() is AnthropicChat


def test_a_plain_prompt(server: Any) -> None:
    assert completion_of(model(server), "2 + 2?", max_gen_toks=8) == Completion("You said: 2 + 2?", thought=THOUGHT)
    [asked] = server.asked
    assert asked.path == "/v1/messages"
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-secret", "2023-06-01")
    assert "authorization" not in headers
    assert asked.payload == {
        "model": "claude-tiny",
        "max_tokens": 8,
        "temperature": 0.0,
        "messages": [{"role": "user", "content": "2 + 2?"}],
    }


def test_a_chat(server: Any) -> None:
    one = model(server)
    turns = [
        ("system", "Be brief."),
        ("user", "1 + 1?"),
        ("assistant", "2"),
        ("user", "2 + 2?"),
        ("assistant", "It is "),
    ]
    chat = one.apply_chat_template([{"role": role, "content": text} for role, text in turns])
    completion_of(one, chat)
    payload = server.asked[0].payload
    assert payload["system"] == "Be brief."
    assert [message["role"] for message in payload["messages"]] == ["user", "assistant", "user", "assistant"]
    assert payload["messages"][-1]["content"] == "It is"


BEGUN = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "It is"}]


def test_a_begun_answer_is_continued(server: Any) -> None:
    one = model(server)
    completion_of(one, one.apply_chat_template(BEGUN, add_generation_prompt=False))
    assert server.asked[0].payload["messages"] == BEGUN
    assert one.info()["server_prefill"] == "continued"


@pytest.mark.parametrize("body", [b"5", b"null", b"[]"])
def test_an_answer_is_not_continued_by_a_server_that_sends_no_message(server: Any, body: bytes) -> None:
    server.probe_faults.append(Fault(body=body))
    assert model(server).prefill == "text"


@pytest.mark.parametrize("refused", [True, False])
def test_an_answer_that_may_not_be_begun_is_begun_by_the_user(server: Any, refused: bool) -> None:
    """Newest models refuse a begun answer, and so does the interface where the model thinks."""
    server.probe_faults.append(Fault(status=400, message="Prefilling assistant messages is not supported."))
    one = model(server, **({} if refused else {"thinking_budget": 1024}))
    assert one.apply_chat_template(BEGUN, add_generation_prompt=False) == [{"role": "user", "content": "2 + 2?\nIt is"}]
    assert one.info()["server_prefill"] == "the last line of the user's message"


def test_stop_strings(server: Any) -> None:
    server.reply = lambda prompt: "one\n\ntwo. three"
    assert completion_of(model(server), "x", until=["\n\n", "."]) == Completion("one", thought=THOUGHT)
    assert server.asked[0].payload["stop_sequences"] == ["."]  # white space alone is refused
    completion_of(model(server), "x", until=["\n\n"])
    assert "stop_sequences" not in server.asked[1].payload


def test_a_text_that_ran_into_the_limit_says_so(server: Any) -> None:
    server.reply = lambda prompt: "one two three"
    assert completion_of(model(server), "x", max_gen_toks=2) == Completion("one two", truncated=True, thought=THOUGHT)


def test_an_image(server: Any) -> None:
    payload, image = asked_with_image(server, model(server), "What is <image>?")
    parts = payload["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image", "text"]
    source = parts[1]["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/png")
    assert base64.b64decode(source["data"]) == image.encode()[1]
    with pytest.raises(ModelError, match="reads text, image"):
        model(server).check_media(["audio"])


def test_an_overloaded_server_is_asked_again(server: Any) -> None:
    server.fail(times=2, status=529, message="Overloaded")
    server.fail(body=json.dumps({"type": "message", "content": None}).encode())
    assert completion_of(model(server), "x") == Completion("You said: x", thought=THOUGHT)


def test_a_refusal_is_a_failed_request(server: Any) -> None:
    server.fail(status=400, message="prompt is too long: 250000 tokens > 200000 maximum")
    assert completion_of(model(server), "x") == FailedRequest(
        reason="HTTP 400: prompt is too long: 250000 tokens > 200000 maximum"
    )


def test_identity(server: Any) -> None:
    before = model(server).identity
    assert before.startswith(f"anthropic {server.base_url}/messages claude-tiny server=")
    server.model_facts = {"created_at": "2025-03-01T00:00:00Z"}
    assert model(server).identity != before


def test_the_base_url_without_a_path(server: Any) -> None:
    root = server.base_url.removesuffix("/v1")
    assert AnthropicChat(model="claude-tiny", base_url=root).identity == model(server).identity


def test_log_likelihoods_are_refused(server: Any) -> None:
    with pytest.raises(UsageError, match=r"gives no log-likelihoods.*@generate"):
        model(server).loglikelihood([LoglikelihoodRequest("a", "b")])
    with pytest.raises(UsageError, match=r"'anthropic' gives no log-likelihoods, which 'quiz@mcqa' scores.*@generate"):
        multiform.evaluate(model="anthropic", tasks=["quiz@mcqa"])


def test_a_whole_run(server: Any) -> None:
    check_a_whole_run(server, "anthropic", "claude-tiny", apply_chat_template=True)
