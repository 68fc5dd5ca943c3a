"""The models by name: one entry each, whose modules are imported when they are needed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from multiform.models.model import Model
from multiform.prompts.prompt import Content, Messages
from multiform.registry import Registry, import_attribute

M = TypeVar("M", bound=Callable[..., Model])

#: The registered models that ask the provider of a model, by the names that it gives its models.
PROVIDERS = {
    "anthropic": re.compile(r"claude-[\w.:-]+"),
    "openai-chat": re.compile(r"(?:gpt-|chatgpt-|o\d)[\w.:-]*"),
    "gemini": re.compile(r"gemini-[\w.:-]+"),
}


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


_tables = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
#: lm-eval's models that Multiform does not have, and what to use instead.
INSTEAD: Mapping[str, str] = {name: advice["use"] for advice in _tables.pop("instead") for name in advice["models"]}


def _read_entries() -> dict[str, ModelEntry | str]:
    """The entries of ``models.toml``."""
    aliases = _tables.pop("aliases")
    entries: dict[str, ModelEntry | str] = {name: ModelEntry(**fields) for name, fields in _tables.items()}
    for alias, name in aliases.items():
        entries[alias] = ModelEntry(**_tables[name] | {"about": f"lm-eval's name for {name}"})
    return entries


models: Registry[ModelEntry] = Registry("model", _read_entries(), group="multiform.models")


def provider_of(name: str) -> str | None:
    """The registered model that asks the provider of a model.

    >>> provider_of("claude-sonnet-4-6"), provider_of("llama")
    ('anthropic', None)
    """
    return next((provider for provider, pattern in PROVIDERS.items() if pattern.fullmatch(name)), None)


def register_model(*names: str) -> Callable[[M], M]:
    """A decorator that registers a model's class, or a function that makes a model, under one or more names."""

    def decorate(factory: M) -> M:
        about = (factory.__doc__ or "").strip().partition("\n")[0]
        scores = bool(getattr(factory, "scores", True))
        models.register(*names)(ModelEntry(factory=factory, about=about, loglikelihoods=scores))
        return factory

    return decorate
