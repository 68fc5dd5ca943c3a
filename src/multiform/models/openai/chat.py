"""OpenAIChat: a model behind a chat-completions endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import httpx

from multiform.errors import ModelError
from multiform.media import Kind
from multiform.models.openai.messages import pack, unpack, with_media
from multiform.models.openai.payload import completion, first_choice, generation_payload, stop_strings
from multiform.models.openai.server import ServerModel, resolve_arguments
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response, RollingRequest


class OpenAIChat(ServerModel):
    """A chat model on a server, which generates and gives no log-likelihoods.

    Without a chat template the prompt is one message of the user. The server counts tokens itself:
    `max_length` and `tokenizer` are accepted and not used.
    """

    kind = "openai-chat"
    path = "chat/completions"
    scores = False
    stored = True
    media = frozenset[Kind]({"image", "audio"})

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**resolve_arguments(OpenAIChat, arguments))

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        self._refuse()

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        self._refuse()

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        return self.client.ask(requests, self._payload, self._completion)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as a string, from which they are sent as messages."""
        return pack(messages)

    def _payload(self, request: GenerationRequest) -> dict[str, Any]:
        # OpenAI's newer models refuse the name that all other servers know.
        is_openai = httpx.URL(self.url).host == "api.openai.com"
        arguments = generation_payload(request, self.seed, "max_completion_tokens" if is_openai else "max_tokens")
        return {"model": self.name, "messages": with_media(unpack(request.context), request.media), **arguments}

    def _completion(self, request: GenerationRequest, response: Any) -> Completion:
        choice = first_choice(response, self.url)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise ModelError("the answer has no message", where=self.url, hint="check that it is a chat endpoint")
        return completion(message.get("content"), choice, stop_strings(request))

    def _refuse(self) -> NoReturn:
        raise ModelError(
            "a chat server gives no log-likelihoods, which this form scores",
            where=self.kind,
            hint="choose a format in which the model writes (@generate, @cot), or --model openai-completions",
        )
