"""What stands for an image or a sound in the texts of a model."""

from __future__ import annotations

import re
from typing import Any

import jinja2

from multiform.errors import ModelError
from multiform.media import Kind

#: Texts around an image in a chat, so that what the template writes for it can be found.
_BEFORE, _AFTER = "multiformbefore", "multiformafter"


def media_token(processor: Any, config: Any, kind: Kind, *, name: str, token_id: int | None = None) -> str:
    """The text that stands for one image or sound.

    That is what the model's own chat template writes for it, with the tokens around that belong
    to it; where the template does not tell, the token that the processor or the configuration names.
    """
    if token_id is not None:
        return str(processor.tokenizer.decode([token_id]))
    token = getattr(processor, f"{kind}_token", None)
    if token is None:
        for field in (f"{kind}_token_id", f"{kind}_token_index"):
            if getattr(config, field, None) is not None:
                token = processor.tokenizer.decode([getattr(config, field)])
    written = _written(processor, kind)
    if written and (token is None or str(token) in written):
        return written
    if token is None:
        hint = "name it with image_string" if kind == "image" else "use a model whose processor names it"
        raise ModelError(f"nothing says what stands for {kind} in the model's texts", where=name, hint=hint)
    return str(token)


def _written(processor: Any, kind: Kind) -> str:
    """The special tokens that the chat template puts where an image or a sound is."""
    if not getattr(processor, "chat_template", None):
        return ""
    parts = [{"type": "text", "text": _BEFORE}, {"type": kind}, {"type": "text", "text": _AFTER}]
    try:
        text = str(processor.apply_chat_template([{"role": "user", "content": parts}], tokenize=False))
    except (jinja2.TemplateError, TypeError, ValueError, KeyError):
        return ""
    between = text.partition(_BEFORE)[2].partition(_AFTER)[0] if _AFTER in text else ""
    special = "|".join(re.escape(token) for token in processor.tokenizer.get_added_vocab())
    # Words and line breaks around the tokens are the template's own.
    found = re.search(f"(?:{special})(?:.*(?:{special}))?", between, re.DOTALL) if special else None
    return found[0] if found else ""
