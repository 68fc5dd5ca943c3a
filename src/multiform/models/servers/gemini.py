"""GeminiChat: a model behind Google's generateContent interface."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from multiform.errors import ModelError
from multiform.models.servers import protocol
from multiform.models.servers.batch_interfaces import GeminiBatches
from multiform.models.servers.exchange import RefusedError, mapping_in, mappings_in
from multiform.models.servers.server_model import ChatServer
from multiform.prompts.media import Kind, Media
from multiform.requests import Completion, GenerationRequest

#: The interface accepts no more stop strings than this.
MAX_STOPS = 5
_ROLES = {"assistant": "model", "user": "user"}
#: Generation arguments by the interface's names; any other is passed on as it is.
_NAMES = {
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "top_p": "topP",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}


class GeminiChat(ChatServer):
    """A chat model on a server that speaks Google's protocol, which generates and gives no log-likelihoods here."""

    kind = "gemini"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    url_env = "GEMINI_BASE_URL"
    key_env = "GEMINI_API_KEY"
    root_path = "/v1beta"
    endpoints = ()
    stored = True
    batches = GeminiBatches
    media = frozenset[Kind]({"image", "audio"})
    thinking_arguments = ("enable_thinking", "reasoning_effort", "thinking_budget")

    def path(self) -> str:
        return f"{self.models_path()}:generateContent"

    def models_path(self) -> str:
        return f"models/{self.name.removeprefix('models/')}"

    def auth(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        messages, _ = protocol.sent_messages(request, message_part)
        arguments = protocol.generation_arguments(request, self.seed, most_stops=MAX_STOPS, fills_context=True)
        named = {_NAMES.get(name, name): value for name, value in arguments.items()}
        config = _thinking_config(self.thinking_of(request))
        config = {**({"thinkingConfig": config} if config else {}), **named}
        system = [part for message in messages if message["role"] == "system" for part in _parts(message)]
        contents = [
            {"role": _ROLES[message["role"]], "parts": _parts(message)}
            for message in messages
            if message["role"] != "system"
        ]
        instruction = {"systemInstruction": {"parts": system}} if system else {}
        return {**instruction, "contents": contents, "generationConfig": config}

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        listed = mappings_in(response, "candidates")
        candidate = next((entry for entry in listed if entry.get("index", 0) == 0), None)
        if candidate is None:
            if reason := mapping_in(response, "promptFeedback").get("blockReason"):
                raise RefusedError(f"the prompt is blocked: {reason}")
            raise ModelError("the response has no candidates", hint="check that it is a server of Gemini")
        content = mapping_in(candidate, "content")
        if not isinstance(content.get("parts"), list) and not candidate.get("finishReason"):
            raise ModelError("the response has no content")
        # Thoughts are not part of the completion; one that was blocked or used up by thoughts has no parts.
        parts = [part for part in mappings_in(content, "parts") if isinstance(part.get("text"), str)]
        text = "".join(part["text"] for part in parts if not part.get("thought"))
        thought = "".join(part["text"] for part in parts if part.get("thought")) or None
        reason = protocol.finish_reason(candidate, "finishReason")
        return protocol.completion(request, response, text, reason, thought=thought)


def _thinking_config(thinking: protocol.Thinking) -> dict[str, Any]:
    """The budget or the level of thinking, whose thoughts the interface sends along."""
    given = {"thinkingBudget": thinking.budget, "thinkingLevel": thinking.reasoning_effort}
    config: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if thinking.budget != 0 and (config or thinking.enable_thinking):
        config["includeThoughts"] = True
    return config


def message_part(content: str | Media) -> dict[str, Any]:
    """A part of a message."""
    if isinstance(content, str):
        return {"text": content}
    media_type, data = content.encode()
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [message_part(content)] if isinstance(content, str) else list(content)
