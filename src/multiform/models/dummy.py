"""The dummy model: knows nothing and responds at once, for tests and dry runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import UsageError, nearest
from multiform.models.model import LOCAL_ARGUMENTS, Model
from multiform.prompts.media import Kind
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response, RollingRequest


class DummyModel(Model):
    """A model whose outputs depend on the request's content alone: the same in every run and order."""

    name = "dummy"
    media = frozenset[Kind]({"image", "audio"})

    def __init__(self, *, seed: int = 0, text: str | None = None, **others: object) -> None:
        for key in others.keys() - LOCAL_ARGUMENTS:
            raise UsageError(f"model 'dummy' has no argument '{key}'", hint=nearest(key, ["seed", "text"]))
        self.seed = seed
        self.text = text
        self.identity = f"dummy seed={seed} text={text!r}"

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for position, request in enumerate(requests):
            chance = self._chance(request.context, request.continuation, *(medium.sha256 for medium in request.media))
            yield position, LLOutput(-1 - 10 * chance, is_greedy=chance < 0.25)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        for position, request in enumerate(requests):
            yield position, LLOutput(-len(request.text) * (0.5 + self._chance(request.text)))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        words = ("A", "B", "C", "D", "I am not sure", "The final answer is 12")
        for position, request in enumerate(requests):
            chance = self._chance(request.context, str(request.sample), *(medium.sha256 for medium in request.media))
            yield position, Completion(self.text or f" {words[int(chance * len(words))]}")

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        turns = [f"<{message['role']}>{_text(message['content'])}" for message in messages]
        return "".join(turns) + ("<assistant>" if add_generation_prompt else "")

    def _chance(self, *texts: str) -> float:
        """A number from 0 up to 1 that the texts determine."""
        digest = hashlib.sha256("\0".join([str(self.seed), *texts]).encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


def _text(content: Any) -> str:
    """The content of a message as text, with placeholders for images and audio."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else f"<{part['type']}>" for part in content)
