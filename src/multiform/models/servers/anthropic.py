"""AnthropicChat: a model behind Anthropic's Messages interface."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import ModelError, UsageError
from multiform.models.servers import protocol
from multiform.models.servers.batch_interfaces import AnthropicBatches
from multiform.models.servers.server_model import BEGUN, ChatServer
from multiform.prompts.media import Kind, Media
from multiform.requests import Completion, GenerationRequest

#: The version of the interface that requests are written for.
VERSION = "2023-06-01"


class AnthropicChat(ChatServer):
    """A chat model on a server that speaks Anthropic's protocol, which generates and gives no log-likelihoods."""

    kind = "anthropic"
    default_url = "https://api.anthropic.com/v1"
    url_env = "ANTHROPIC_BASE_URL"
    key_env = "ANTHROPIC_API_KEY"
    root_path = "/v1"
    endpoints = ("/messages",)
    stored = True
    has_seed = False
    batches = AnthropicBatches
    media = frozenset[Kind]({"image"})
    thinking_arguments = ("enable_thinking", "thinking_budget")

    def path(self) -> str:
        return "messages"

    def models_path(self) -> str:
        return f"models/{self.name}"

    def auth(self, key: str) -> dict[str, str]:
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        messages, _ = protocol.sent_messages(request, message_part)  # a last message of the assistant is continued
        system = [message["content"] for message in messages if message["role"] == "system"]
        payload = protocol.generation_arguments(request, seed=None)
        payload.pop("seed", None)
        # The interface refuses stop strings of white space alone; completions are cut at them on arrival.
        if stops := [stop for stop in payload.pop("stop", ()) if stop.strip()]:
            payload["stop_sequences"] = stops
        if system:
            payload["system"] = "\n\n".join(_text(content) for content in system)
        thinking = self.thinking_of(request)
        if thinking.budget:  # the limit counts thoughts, and the interface thinks at temperature 1 alone
            payload |= {"max_tokens": payload["max_tokens"] + thinking.budget, "temperature": 1.0}
            payload = {"thinking": {"type": "enabled", "budget_tokens": thinking.budget}, **payload}
        elif thinking.budget == 0:
            payload = {"thinking": {"type": "disabled"}, **payload}
        elif thinking.enable_thinking:
            message = "enable_thinking needs a number of tokens"
            raise UsageError(message, where=self.kind, hint="give thinking_budget=1024 or more")
        others = [message for message in messages if message["role"] != "system"]
        return {"model": self.name, "messages": turns(others), **payload}

    def continues_answers(self) -> bool:
        """Whether the interface takes an answer that is begun: not of a model that thinks, nor of the newest models."""
        if self.thinking.budget:
            return False
        probe = GenerationRequest.of(BEGUN, {"max_gen_toks": 1})
        return bool(
            self.client.single(
                self.payload(probe), lambda response: isinstance(response, Mapping) and "content" in response
            )
        )

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        content = response.get("content") if isinstance(response, Mapping) else None
        if not isinstance(content, list):
            raise ModelError("the response has no content", hint="check that it is an endpoint for messages")
        blocks = [block for block in content if isinstance(block, Mapping) and block.get("type") == "text"]
        if not all(isinstance(block.get("text"), str) for block in blocks):
            raise ModelError("the response has a text block without text")
        text = "".join(block["text"] for block in blocks)
        reason = protocol.finish_reason(response, "stop_reason")
        thoughts = [block.get("thinking") for block in content if isinstance(block, Mapping)]
        thought = "".join(text for text in thoughts if isinstance(text, str)) or None
        return protocol.completion(request, response, text, reason, thought=thought)


def turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as the interface takes them: a prefilled completion does not end in white space.

    >>> turns([{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "The answer is "}])[-1]
    {'role': 'assistant', 'content': 'The answer is'}
    """
    listed = [dict(message) for message in messages]
    if listed and listed[-1]["role"] == "assistant" and isinstance(listed[-1]["content"], str):
        listed[-1]["content"] = listed[-1]["content"].rstrip()
        if not listed[-1]["content"]:
            listed.pop()
    if not listed:
        raise UsageError("a chat has no message of the user", hint="put the question into one")
    return listed


def message_part(content: str | Media) -> dict[str, Any]:
    """A part of a message."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    media_type, data = content.encode()
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def _text(content: Any) -> str:
    """The text of a system message."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
