"""RemoteModel: the driver's proxy for a model that runs on the workers of a pool."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from multiform.models import Model
from multiform.models.model import Completions, Loglikelihoods
from multiform.models.usage import Usage
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Content, Messages
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, Response, RollingRequest
from multiform.run.executors.local import Unit
from multiform.run.executors.pool import Pool, PoolExecutor
from multiform.run.lazy_model import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What a worker reports about the model that it has loaded, with the worker's version of Multiform."""

    facts: Facts
    media: frozenset[Kind]
    stored: bool
    counts_tokens: bool
    version: str


class ModelPool(Pool, Protocol):
    """A pool that also describes its model."""

    def loaded(self) -> LoadedModel:
        """The model, from the first worker that has loaded it."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method on a worker and return its result."""


class RemoteModel(Model):
    """Runs requests with an executor of a pool; its facts, chat template and plans come from a worker."""

    handles_stop = True

    def __init__(self, pool: ModelPool, executor: PoolExecutor) -> None:
        started = time.monotonic()
        loaded = pool.loaded()
        self.loading_seconds = time.monotonic() - started
        self.facts = loaded.facts
        self.identity = self.facts.identity
        self.name = self.facts.name
        self.media = loaded.media
        self.stored = loaded.stored  # type: ignore[misc]
        self._counts_tokens = loaded.counts_tokens
        self._pool = pool
        self._executor = executor

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        return self._responses(requests)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        return self._responses(requests)

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        return self._responses(requests)

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        content: Content = self._pool.call("apply_chat_template", messages, add_generation_prompt)
        return content

    def chat_template_name(self) -> str:
        return self.facts.chat_template_name

    def chat_template_text(self) -> str | None:
        return self.facts.chat_template_text

    def plan(self, requests: Sequence[Request]) -> str | None:
        planned: str | None = self._pool.call("plan", requests)
        return planned

    def usage(self) -> Usage | None:
        return self._executor.usage if self._counts_tokens else None

    def info(self) -> dict[str, Any]:
        return self.facts.info

    def tokenizer_info(self) -> dict[str, Any]:
        return self.facts.tokenizer_info

    def _responses(self, requests: Unit) -> Iterator[Response[Any]]:
        positions = {request: position for position, request in enumerate(requests)}
        for request, output in self._executor.run([requests]):
            yield positions[request], output
