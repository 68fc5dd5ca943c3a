"""The interface of a model: three questions, answered in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from multiform.errors import ModelError
from multiform.media import Kind
from multiform.registry import Registry
from multiform.requests import (
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Request,
    Response,
    RollingRequest,
)

T = TypeVar("T")

#: Arguments that say how a local model runs; other models take them and have no use for them.
LOCAL_ARGUMENTS = frozenset({"batch_size", "max_batch_size", "device", "trust_remote_code"})


class Model(ABC):
    """A language model.

    Each method yields an answer as soon as it is known, in whatever order is fastest; the
    caller counts, stores and shows them as they come. No request is dropped.
    """

    #: Identifies weights and settings that change answers: equal identities give equal answers.
    identity: str
    #: What results files and tables call the model.
    name: str
    #: What the model reads beside text.
    media: frozenset[Kind] = frozenset()
    #: Whether answers are worth keeping, where the user has not said.
    stored: ClassVar[bool] = True

    @abstractmethod
    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        """Log-likelihood of each continuation after its context, and whether it is the greedy one."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        """Log-likelihood of each whole text, in windows where it is longer than the context."""

    @abstractmethod
    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        """The text that the model writes after each context, cut at the first stop string."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one string in the model's own chat layout."""
        raise ModelError(f"model '{self.name}' has no chat template", hint="run without --apply_chat_template")

    def check_media(self, kinds: Iterable[Kind]) -> None:
        """Raise a ModelError when the model cannot read what is asked with these."""
        missing = sorted(set(kinds) - self.media)
        if missing:
            read = ", ".join(["text", *sorted(self.media)])
            what = f"model '{self.name}' reads {read}; the task's prompts have {' and '.join(missing)}"
            words = " or ".join(f"{kind}-text model" for kind in missing)
            raise ModelError(what, hint=f"use --model hf-multimodal with an {words} of transformers")

    def check_parts(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Raise a ModelError when messages have parts that the model cannot read."""
        lists = [message["content"] for message in messages if isinstance(message["content"], list)]
        self.check_media(part["type"] for parts in lists for part in parts if part["type"] != "text")

    def chat_template_name(self) -> str:
        """The tokenizer or server whose chat template is used; part of what identifies a prompt."""
        return self.name

    def chat_template_text(self) -> str | None:
        """The chat template itself, for the results file."""
        return None

    def plan(self, requests: Sequence[Request]) -> str | None:
        """What it would take to answer the requests, in words; None where the model does not plan."""
        return None

    def info(self) -> dict[str, Any]:
        """What the results file's `config` says about the model, beside its name and arguments."""
        return {}

    def tokenizer_info(self) -> dict[str, Any]:
        """What the results file says about the tokenizer and the context."""
        return {}


models: Registry[type[Model]] = Registry(
    "model",
    lazy={
        "hf": "multiform.models.hf.model:HFModel",
        "hf-multimodal": "multiform.models.multimodal.model:HFMultimodalModel",
        "bundled": "multiform.models.hf.bundled:BundledModel",
        "dummy": "multiform.models.dummy:DummyModel",
        "openai-chat": "multiform.models.openai:OpenAIChat",
        "openai-completions": "multiform.models.openai:OpenAICompletions",
        # lm-eval's names for the same
        "hf-auto": "multiform.models.hf.model:HFModel",
        "huggingface": "multiform.models.hf.model:HFModel",
        "local-chat-completions": "multiform.models.openai:OpenAIChat",
        "local-completions": "multiform.models.openai:OpenAICompletions",
        "openai-chat-completions": "multiform.models.openai:OpenAIChat",
    },
)
register_model = models.register
