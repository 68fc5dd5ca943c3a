"""Google's generateContent, asked of a fake that follows its documented format."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models import models
from multiform.models.servers.gemini import GeminiChat
from multiform.requests import Completion, FailedRequest, LoglikelihoodRequest
from tests.models.fake_server import FakeServer, Fault, fake_server, prompt_of, words
from tests.models.fake_server_fixture import asked_with_image, check_a_whole_run, completion_of, shorten_waits

#: What the fake thinks before each of its replies.
THOUGHT = "Let me think."


@dataclass
class FakeGemini(FakeServer):
    """Responds as documented for POST /v1beta/models/{model}:generateContent and GET /v1beta/models/{model}."""

    def respond(self, path: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        if path != "/v1beta/models/gemini-tiny:generateContent":
            return None
        assert set(payload) <= {"contents", "systemInstruction", "generationConfig"}
        config = payload["generationConfig"]
        assert set(config) <= {"maxOutputTokens", "temperature", "stopSequences", "seed", "topP", "topK"}
        assert len(config.get("stopSequences", ())) <= 5
        assert all(content["role"] in ("user", "model") for content in payload["contents"])
        text = self.reply(prompt_of(payload))
        kept = "".join(words(text)[: config["maxOutputTokens"]])
        parts = [{"text": THOUGHT, "thought": True}, {"text": kept[:3]}, {"text": kept[3:]}]
        candidate = {
            "content": {"parts": parts, "role": "model"},
            "finishReason": "STOP" if kept == text else "MAX_TOKENS",
            "index": 0,
        }
        return {"candidates": [candidate], "modelVersion": "gemini-tiny-001", "usageMetadata": {"totalTokenCount": 9}}

    def error(self, fault: Fault) -> dict[str, Any]:
        return {"error": {"code": fault.status, "message": fault.message, "status": "UNAVAILABLE"}}

    def model_list(self, path: str) -> dict[str, Any]:
        assert path == "/v1beta/models/gemini-tiny"
        return {"name": "models/gemini-tiny", "version": "001", "displayName": "Tiny", **(self.model_facts or {})}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    shorten_waits(monkeypatch)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-secret")
    with fake_server(state=FakeGemini()) as running:
        running.base_url = running.base_url.replace("/v1", "/v1beta")
        yield running


def model(server: FakeServer, **arguments: Any) -> GeminiChat:
    return GeminiChat(model="gemini-tiny", base_url=server.base_url, **arguments)


def test_it_is_registered() -> None:
    assert models.get("gemini").load() is GeminiChat


def test_a_plain_prompt(server: Any) -> None:
    completion = completion_of(model(server), "2 + 2?", max_gen_toks=8, top_p=0.9)
    assert completion == Completion("You said: 2 + 2?", thought=THOUGHT)
    [asked] = server.asked
    assert {name.lower(): value for name, value in asked.headers.items()}["x-goog-api-key"] == "AIza-secret"
    assert asked.payload == {
        "contents": [{"role": "user", "parts": [{"text": "2 + 2?"}]}],
        "generationConfig": {"maxOutputTokens": 8, "temperature": 0.0, "seed": 1234, "topP": 0.9},
    }


def test_a_chat(server: Any) -> None:
    one = model(server)
    turns = [("system", "Be brief."), ("user", "1 + 1?"), ("assistant", "2"), ("user", "2 + 2?")]
    completion_of(one, one.apply_chat_template([{"role": role, "content": text} for role, text in turns]))
    payload = server.asked[0].payload
    assert payload["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [content["role"] for content in payload["contents"]] == ["user", "model", "user"]


def test_a_text_is_cut_at_every_stop_string(server: Any) -> None:
    server.reply = lambda prompt: "one two three"
    stops = ["a", "b", "c", "d", "f", " three"]
    assert completion_of(model(server), "x", until=stops) == Completion("one two", thought=THOUGHT)
    assert server.asked[0].payload["generationConfig"]["stopSequences"] == stops[:5]


def test_a_text_that_ran_into_the_limit_says_so(server: Any) -> None:
    server.reply = lambda prompt: "one two three"
    assert completion_of(model(server), "x", max_gen_toks=2) == Completion("one two", truncated=True, thought=THOUGHT)


def test_an_image(server: Any) -> None:
    payload, image = asked_with_image(server, model(server), "<image>?")
    [picture, text] = payload["contents"][0]["parts"]
    assert picture["inlineData"]["mimeType"] == "image/png"
    assert base64.b64decode(picture["inlineData"]["data"]) == image.encode()[1]
    assert text == {"text": "?"}


@pytest.mark.parametrize(
    "body",
    [{}, {"candidates": []}, {"candidates": [{"index": 0}]}, {"error": {"code": 503, "message": "busy"}}],
    ids=str,
)
def test_a_response_of_another_kind_is_requested_again(server: Any, body: Any) -> None:
    server.fail(body=json.dumps(body).encode())
    assert completion_of(model(server), "x") == Completion("You said: x", thought=THOUGHT)


def test_a_blocked_prompt_is_a_failed_request_at_once(server: Any) -> None:
    server.fail(times=9, body=json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}).encode())
    assert completion_of(model(server), "x") == FailedRequest(reason="the prompt is blocked: SAFETY")
    assert len(server.asked) == 1


def test_a_blocked_response_is_an_empty_one(server: Any) -> None:
    server.fail(body=json.dumps({"candidates": [{"finishReason": "SAFETY", "index": 0}]}).encode())
    assert completion_of(model(server), "x") == Completion("", finish_reason="SAFETY")


def test_identity(server: Any) -> None:
    before = model(server).identity
    server.model_facts = {"version": "002"}
    assert model(server).identity != before
    assert "models/gemini-tiny:generateContent" in before


def test_log_likelihoods_are_refused(server: Any) -> None:
    with pytest.raises(UsageError, match=r"gives no log-likelihoods.*@generate"):
        model(server).loglikelihood([LoglikelihoodRequest("a", "b")])


def test_a_whole_run(server: Any) -> None:
    check_a_whole_run(server, "gemini", "gemini-tiny")
