"""Chats: what writes prompts in a model's chat template, without loading the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from multiform.registry import Registry


class Chat(Protocol):
    """Writes a conversation as a model's prompt."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one string."""


#: From a model's arguments to its chat.
chats: Registry[Callable[[dict[str, Any]], Chat]] = Registry(
    "model",
    lazy={
        "hf": "multiform.models.hf.chat:chat_of",
        "hf-auto": "multiform.models.hf.chat:chat_of",
        "huggingface": "multiform.models.hf.chat:chat_of",
        "bundled": "multiform.models.hf.chat:bundled_chat",
    },
)
