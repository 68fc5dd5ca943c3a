"""The chat template of the bundled model, as each side applies it; no weights are needed."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

Chat = Callable[..., str]


@cache
def tokenizer() -> Any:
    """The bundled model's tokenizer."""
    import transformers

    from multiform.models.hf.bundled import bundled_folder

    return transformers.AutoTokenizer.from_pretrained(bundled_folder())


@cache
def our_chat() -> Chat:
    """As Multiform's local models apply it."""
    from multiform.models.hf.chat import written_chat

    def write(messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        options = {
            "tokenize": False,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
        }
        return written_chat(lambda chat: tokenizer().apply_chat_template(chat, **options), messages, name="bundled")

    return write


@cache
def their_chat() -> Chat:
    """As lm-eval's local models apply it."""
    from lm_eval.models.huggingface import HFLM

    model = types.SimpleNamespace(tokenizer=tokenizer(), chat_template_args={})
    return types.MethodType(HFLM.apply_chat_template, model)  # type: ignore[arg-type]
