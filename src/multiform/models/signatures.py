"""What is known of a model before it is loaded.

Equal signatures mean equal models. What a model turned out to be is stored under its signature, so
that a run whose answers are all known need not load the model to tell which one it is. Nor need it
for prompts in the model's chat template: these take its tokenizer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from multiform.registry import Registry

#: From a model's arguments to its signature, or None where it cannot be told.
Sign: TypeAlias = Callable[[dict[str, Any]], str | None]

signatures: Registry[Sign] = Registry(
    "model",
    lazy={
        "hf": "multiform.models.hf.signature:signature",
        "hf-auto": "multiform.models.hf.signature:signature",
        "huggingface": "multiform.models.hf.signature:signature",
        "hf-multimodal": "multiform.models.hf.signature:signature",
        "bundled": "multiform.models.hf.signature:bundled_signature",
    },
)


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
