"""Loading a model: at once, or for its first request where the store has its facts.

What the results of a run say about its model is stored when the model is first loaded. When all
responses of a run are cached, that is all it needs: no weights, and no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from multiform.errors import ModelError
from multiform.models import Model
from multiform.models.model import Completions, Loglikelihoods, Usage
from multiform.models.registry import ChatFormatter
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Content, Messages
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the results of a run say about its model."""

    identity: str
    name: str
    info: dict[str, Any]
    tokenizer_info: dict[str, Any]
    chat_template_name: str
    chat_template_text: str | None

    @classmethod
    def of(cls, model: Model) -> Facts:
        return cls(
            identity=model.identity,
            name=model.name,
            info=model.info(),
            tokenizer_info=model.tokenizer_info(),
            chat_template_name=model.chat_template_name(),
            chat_template_text=model.chat_template_text(),
        )


class FactsModel(Model):
    """Stands for a model of which the facts are known."""

    facts: Facts

    def chat_template_name(self) -> str:
        return self.facts.chat_template_name

    def chat_template_text(self) -> str | None:
        return self.facts.chat_template_text

    def info(self) -> dict[str, Any]:
        return self.facts.info

    def tokenizer_info(self) -> dict[str, Any]:
        return self.facts.tokenizer_info


class LazyModel(FactsModel):
    """Stands for a model whose facts are stored, and loads it for its first request.

    `chat` gives what writes conversations without the model, where that is possible.
    """

    stored = True

    def __init__(
        self,
        facts: Facts,
        load: Callable[[], Model],
        remember: Callable[[Facts], None],
        chat: Callable[[], ChatFormatter | None] = lambda: None,
    ) -> None:
        self.facts = facts
        self.identity = facts.identity
        self.name = facts.name
        self._load = load
        self._remember = remember
        self._make_chat = chat
        self._model: Model | None = None
        self._keeps_prefixes = False

    @cached_property
    def _chat(self) -> ChatFormatter:
        return self.model if self._model else self._make_chat() or self.model

    @property
    def model(self) -> Model:
        """The model itself, loaded."""
        if self._model is None:
            model = self._load()
            if model.identity != self.identity:
                self._remember(Facts.of(model))
                raise ModelError(f"model '{self.name}' is not what it was", hint="run the same command again")
            model.keep_prefixes(self._keeps_prefixes)
            self._model = model
        return self._model

    @property
    def loading_seconds(self) -> float:  # type: ignore[override]
        return 0.0 if self._model is None else self._model.loading_seconds

    @property
    def handles_stop(self) -> bool:  # type: ignore[override]
        return self.model.handles_stop

    @property
    def media(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.model.media

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        return self.model.loglikelihood(requests)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        return self.model.loglikelihood_rolling(requests)

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        return self.model.generate(requests)

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        plain = self.facts.chat_template_text and all(isinstance(message["content"], str) for message in messages)
        chat = self._chat if plain else self.model  # which knows what to say to parts, or without a template
        return chat.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def keep_prefixes(self, keep: bool) -> None:
        self._keeps_prefixes = keep
        if self._model is not None:
            self._model.keep_prefixes(keep)

    def plan(self, requests: Sequence[Request]) -> str | None:
        return self.model.plan(requests)

    def workload(self, requests: Sequence[Request]) -> Usage | None:
        return self.model.workload(requests)

    def usage(self) -> Usage | None:
        return Usage() if self._model is None else self._model.usage()
