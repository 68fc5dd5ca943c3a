"""The interface of a model: three questions, answered in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

from multiform.errors import ModelError
from multiform.registry import Registry
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, RollingRequest

T = TypeVar("T")

#: The position of a request in the sequence that was given, and its output.
Answer: TypeAlias = tuple[int, T]


class Model(ABC):
    """A language model.

    Each method yields an answer as soon as it is known, in whatever order is fastest; the
    caller counts, stores and shows them as they come. No request is dropped.
    """

    #: Identifies weights and settings that change answers: equal identities give equal answers.
    identity: str
    #: What results files and tables call the model.
    name: str
    #: Whether answers are worth keeping, where the user has not said.
    stored: ClassVar[bool] = True

    @abstractmethod
    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Answer[LLOutput]]:
        """Log-likelihood of each continuation after its context, and whether it is the greedy one."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Answer[LLOutput]]:
        """Log-likelihood of each whole text, in windows where it is longer than the context."""

    @abstractmethod
    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Answer[Completion]]:
        """The text that the model writes after each context, cut at the first stop string."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one string in the model's own chat layout."""
        raise ModelError(f"model '{self.name}' has no chat template", hint="run without --apply_chat_template")

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
        "bundled": "multiform.models.hf.bundled:BundledModel",
        "dummy": "multiform.models.dummy:DummyModel",
    },
)
register_model = models.register
