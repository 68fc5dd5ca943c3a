"""How chat models on servers are told to think, and where their thoughts are in a response."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models.servers.anthropic import AnthropicChat
from multiform.models.servers.gemini import GeminiChat
from multiform.models.servers.openai_chat import OpenAIChat
from multiform.requests import GenerationRequest

REQUEST = GenerationRequest.of("2 + 2?", {"max_gen_toks": 8})
FILLING = GenerationRequest.of("2 + 2?", {"max_gen_toks": "context"})
SERVER: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}


def choice(**message):
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}


def test_openai_gets_the_effort_and_the_variables_of_its_template():
    model = OpenAIChat(**SERVER, reasoning_effort="low", enable_thinking=True, thinking_budget=512)
    payload = model.payload(REQUEST)
    assert payload["reasoning_effort"] == "low"
    assert payload["chat_template_kwargs"] == {"enable_thinking": True, "thinking_budget": 512}
    assert "thinking_budget=512" in " ".join(f"{key}={value}" for key, value in model.settings().items())


def test_arguments_that_were_not_given_change_nothing():
    assert not {"chat_template_kwargs", "reasoning_effort"} & set(OpenAIChat(**SERVER).payload(REQUEST))
    assert OpenAIChat(**SERVER).settings() == {"seed": 1234}
    assert "thinking" not in AnthropicChat(**SERVER).payload(REQUEST)
    assert "thinkingConfig" not in GeminiChat(**SERVER).payload(REQUEST)["generationConfig"]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_openai_servers_send_thoughts_apart(key):
    completion = OpenAIChat(**SERVER).completion(REQUEST, choice(content="4", **{key: "2 + 2"}))
    assert (completion.text, completion.thought) == ("4", "2 + 2")


def test_a_thought_in_the_text_ends_at_the_token():
    model = OpenAIChat(**SERVER, think_end_token="</think>")
    completion = model.completion(REQUEST, choice(content="<think>2 + 2</think>\n4"))
    assert (completion.text, completion.thought) == ("4", "2 + 2")


def test_anthropic_thinks_within_a_budget_beside_the_limit():
    model = AnthropicChat(**SERVER, thinking_budget=1024)
    payload = model.payload(REQUEST)
    assert payload["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert (payload["max_tokens"], payload["temperature"]) == (1032, 1.0)
    content = [{"type": "thinking", "thinking": "2 + 2", "signature": "x"}, {"type": "text", "text": "4"}]
    completion = model.completion(REQUEST, {"content": content, "stop_reason": "end_turn"})
    assert (completion.text, completion.thought) == ("4", "2 + 2")


def test_gemini_sends_its_thoughts_along():
    model = GeminiChat(**SERVER, thinking_budget=256)
    assert model.payload(REQUEST)["generationConfig"]["thinkingConfig"] == {
        "thinkingBudget": 256,
        "includeThoughts": True,
    }
    parts = [{"text": "2 + 2", "thought": True}, {"text": "4"}]
    completion = model.completion(REQUEST, {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    assert (completion.text, completion.thought) == ("4", "2 + 2")


def test_what_a_protocol_cannot_say_is_refused():
    with pytest.raises(UsageError, match="'anthropic' has no reasoning_effort"):
        AnthropicChat(**SERVER, reasoning_effort="low")
    with pytest.raises(UsageError, match="enable_thinking needs a number of tokens"):
        AnthropicChat(**SERVER, enable_thinking=True)
    with pytest.raises(UsageError, match="thinking_budget is -1"):
        OpenAIChat(**SERVER, thinking_budget=-1)
    with pytest.raises(UsageError, match="give one of them"):
        OpenAIChat(**SERVER, thinking_budget=8, enable_thinking=False)


def test_a_completion_may_fill_the_context():
    assert "max_tokens" not in OpenAIChat(**SERVER).payload(FILLING)
    assert "maxOutputTokens" not in GeminiChat(**SERVER).payload(FILLING)["generationConfig"]
    assert AnthropicChat(**SERVER).payload(FILLING)["max_tokens"] == 8192


def budgeted(model: Any, tokens: int) -> dict[str, Any]:
    """What is sent for a request whose form has a thinking budget."""
    payload: dict[str, Any] = model.payload(GenerationRequest.of("2 + 2?", {"thinking_budget": tokens}))
    assert "thinking_budget" not in payload
    return payload


def test_a_budget_of_the_form_is_sent_with_the_request() -> None:
    address: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    anthropic = AnthropicChat(**address)
    assert budgeted(anthropic, 2048)["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert budgeted(anthropic, 0)["thinking"] == {"type": "disabled"}
    gemini = GeminiChat(**address)
    assert budgeted(gemini, 512)["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 512
    openai = OpenAIChat(**address, enable_thinking=False)
    assert budgeted(openai, 512)["chat_template_kwargs"] == {"thinking_budget": 512}
    assert budgeted(openai, 0)["chat_template_kwargs"] == {"enable_thinking": False, "thinking_budget": 0}


def test_the_budget_of_the_form_is_part_of_the_estimated_cost() -> None:
    requests = [GenerationRequest.of("2 + 2?", {"max_gen_toks": 8, "thinking_budget": n}) for n in (0, 1024, 2048)]
    assert AnthropicChat(**SERVER).estimate_tokens(requests)["completion"] == 3 * 8 + 1024 + 2048
