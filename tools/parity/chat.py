"""The chat template of the bundled model, as each side applies it; no weights are needed."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

Chat = Callable[..., str]


@cache
def tokenizer() -> Any:
    """The bundled model's tokenizer."""
    import transformers

    from multiform.models.hf.model import bundled_folder

    return transformers.AutoTokenizer.from_pretrained(bundled_folder())


@cache
def our_chat() -> Chat:
    """As Multiform's local models apply it."""
    from multiform.models.hf.load import load_bundled_chat

    return load_bundled_chat({}).apply_chat_template


@cache
def their_chat() -> Chat:
    """As lm-eval's local models apply it."""
    from lm_eval.models.huggingface import HFLM

    model = types.SimpleNamespace(tokenizer=tokenizer(), chat_template_args={})
    return types.MethodType(HFLM.apply_chat_template, model)
