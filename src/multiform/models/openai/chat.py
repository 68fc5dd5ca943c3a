"""OpenAIChat: a model behind a chat-completions endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import httpx

from multiform.errors import ModelError
from multiform.media import Kind
from multiform.models.openai.accepted import our_arguments
from multiform.models.openai.media import with_media
from multiform.models.openai.messages import pack, unpack
from multiform.models.openai.payload import completion, generation_payload, read_choice, stop_strings
from multiform.models.openai.server import ServerModel
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response, RollingRequest


class OpenAIChat(ServerModel):
    """A chat model on a server: it writes, and gives no log-likelihoods.

    Without a chat template the prompt is one message of the user. The server counts tokens itself:
    `max_length` and `tokenizer` are taken and not used.
    """

    kind = "openai-chat"
    path = "chat/completions"
    media = frozenset[Kind]({"image", "audio"})

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**our_arguments(arguments))

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        self._refuse()

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        self._refuse()

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        return self.client.ask(requests, self._payload, self._read)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as a string from which they are sent as messages."""
        return pack(messages)

    def _payload(self, request: GenerationRequest) -> dict[str, Any]:
        # OpenAI's newer models refuse the name that all other servers know.
        own = httpx.URL(self.url).host == "api.openai.com"
        arguments = generation_payload(request, self.seed, "max_completion_tokens" if own else "max_tokens")
        return {"model": self.name, "messages": with_media(unpack(request.context), request.media), **arguments}

    def _read(self, request: GenerationRequest, answer: Any) -> Completion:
        choice = read_choice(answer, self.url)
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
