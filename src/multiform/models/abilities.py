"""What models can do, known by their names, so that a run which cannot be is refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from multiform.models.base import Model, models
from multiform.registry import Registry

#: Servers that write and give no log-likelihoods.
_WRITING_ONLY = frozenset({"openai-chat", "openai-chat-completions", "local-chat-completions"})

#: What raises a UsageError for arguments of generation that a model does not take. Servers take any, and check them.
generation_checks: Registry[Callable[[Mapping[str, Any]], object]] = Registry(
    "model",
    lazy=dict.fromkeys(
        ("hf", "hf-auto", "huggingface", "hf-multimodal", "bundled"), "multiform.models.hf.options:generation_options"
    ),
)


def gives_loglikelihoods(model: str | Model | Any) -> bool:
    """Whether a model, by name or as an object, scores text; one that says nothing about it does."""
    if not isinstance(model, str):
        return bool(getattr(model, "scores", True))
    return model not in _WRITING_ONLY if models.is_builtin(model) else bool(getattr(models.get(model), "scores", True))


def check_generation_kwargs(model: str | Model | Any, gen_kwargs: Mapping[str, Any]) -> None:
    """Raise a UsageError for arguments of generation that a built-in model does not take."""
    if isinstance(model, str) and models.is_builtin(model) and model in generation_checks:
        generation_checks.get(model)(gen_kwargs)
