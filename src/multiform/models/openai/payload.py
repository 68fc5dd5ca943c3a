"""Requests and responses in the terms of OpenAI's protocol."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from multiform.errors import ModelError
from multiform.media import Media
from multiform.models.servers import generation
from multiform.requests import GenerationRequest

#: Servers accept no more stop strings than this; completions are cut at all of them on arrival.
MAX_STOPS = 4


class OpenAIProtocol:
    """What the two interfaces of OpenAI's protocol share."""

    default_url = "https://api.openai.com/v1"
    url_env = "OPENAI_BASE_URL"
    key_env = "OPENAI_API_KEY"
    endpoints: ClassVar[Collection[str]] = ("/chat/completions", "/completions")

    def models_path(self) -> str:
        return "models"

    def auth(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def version(self, response: Mapping[str, Any]) -> dict[str, Any]:
        names = {"model": "model_version", "system_fingerprint": "system_fingerprint"}
        return {name: response[key] for key, name in names.items() if isinstance(response.get(key), str)}


def generation_payload(request: GenerationRequest, seed: int | None, limit_name: str = "max_tokens") -> dict[str, Any]:
    """The payload for a generation; unknown arguments are passed to the server as they are.

    >>> generation_payload(GenerationRequest.of("", {"until": ["."], "max_gen_toks": 8, "top_p": 0.9}), seed=1)
    {'max_tokens': 8, 'temperature': 0.0, 'stop': ['.'], 'seed': 1, 'top_p': 0.9}
    """
    payload: dict[str, Any] = {
        limit_name: generation.token_limit(request),
        "temperature": generation.temperature(request),
    }
    if stops := generation.stop_strings(request):
        payload["stop"] = stops[:MAX_STOPS]
    if (number := generation.seed(request, seed)) is not None:
        payload["seed"] = number
    return payload | generation.other_arguments(request)


def message_part(content: str | Media) -> dict[str, Any]:
    """A part of a message."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if content.kind == "image":
        return {"type": "image_url", "image_url": {"url": content.data_url()}}
    data = base64.b64encode(content.encoded()[1]).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def only_choice(response: Any) -> Mapping[str, Any]:
    """The choice for the only prompt of a request: that of index 0, wherever it is in the list."""
    choices = response.get("choices") if isinstance(response, Mapping) else None
    listed = [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []
    chosen = next((choice for choice in listed if choice.get("index", 0) == 0), None)
    if chosen is None:
        hint = "check that base_url is an OpenAI-compatible endpoint"
        raise ModelError(f"the response has no choices: {response!r}", hint=hint)
    return chosen
