"""OpenAIChat: a model behind a chat-completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from multiform.errors import ModelError
from multiform.models.model import Loglikelihoods, no_loglikelihoods
from multiform.models.servers.openai_protocol import (
    NUMBERS,
    PROBE_ATTEMPTS,
    OpenAIProtocol,
    Scoring,
    chat_alternatives,
    generation_payload,
    message_part,
    only_choice,
    score_labels,
)
from multiform.models.servers.protocol import completion, finish_reason, request_messages, stop_strings, with_media
from multiform.models.servers.server_model import CHAT_RULES, ChatServer, resolve_arguments
from multiform.prompts.media import Kind
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest


class OpenAIChat(OpenAIProtocol, ChatServer):
    """A chat model on a server that speaks OpenAI's protocol.

    Where the server lists the likeliest first tokens of a completion, it scores labels of one token, and nothing else.
    `seed` is sent with every request; ``seed=none`` leaves it out.
    """

    kind = "openai-chat"
    stored = True
    scores = True
    media = frozenset[Kind]({"image", "audio"})

    def __init__(self, *, seed: int | None = 1234, **arguments: Any) -> None:
        self.seed = seed
        super().__init__(**resolve_arguments(OpenAIChat, arguments, CHAT_RULES))

    def path(self) -> str:
        return "chat/completions"

    def settings(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        # OpenAI's newer models refuse the name that all other servers know.
        is_openai = self.root.host == "api.openai.com"
        arguments = generation_payload(request, self.seed, "max_completion_tokens" if is_openai else "max_tokens")
        messages = with_media(request_messages(request), request.media, message_part)
        return {"model": self.name, "messages": messages, **arguments}

    @cached_property
    def scoring(self) -> Scoring:
        """Whether the server lists the likeliest first tokens of a completion."""

        def has_some(response: Any) -> bool:
            return bool(chat_alternatives(only_choice(response)))

        payload = self._label_payload(self.probe())
        return "first_token" if self.client.single(payload, has_some, attempts=PROBE_ATTEMPTS) else "none"

    def check_scoring(self, *, labels: bool, form: str) -> None:
        if not labels or self.scoring == "none":
            raise no_loglikelihoods(self.name, form)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        if self.scoring == "none":
            self._refuse()
        return score_labels(
            self.client, requests, self._label_payload, lambda response: chat_alternatives(only_choice(response))
        )

    def _label_payload(self, request: LoglikelihoodRequest | GenerationRequest) -> dict[str, Any]:
        """The payload that requests the likeliest first tokens after a prompt."""
        generation = GenerationRequest.of(request.prompt, {"max_gen_toks": 1})
        return {**self.payload(generation), "logprobs": True, "top_logprobs": NUMBERS[0]}

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        choice = only_choice(response)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise ModelError("the response has no message", hint="check that it is a chat endpoint")
        reason = "refusal" if message.get("refusal") else finish_reason(choice, "finish_reason")
        return completion(_text(message.get("content")), stop_strings(request), reason)


def _text(content: Any) -> str:
    """The text of a message: empty after a refusal, or where all tokens were spent on reasoning.

    >>> _text([{"type": "thinking", "thinking": []}, {"type": "text", "text": "four"}])
    'four'
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if not all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts):
        raise ModelError("the response's message is no text", hint="check that it is a chat endpoint")
    texts = [part.get("text") for part in parts if part["type"] == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ModelError("the response's message has a part of text without text")
    return "".join(map(str, texts))
