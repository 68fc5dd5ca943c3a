"""The tokenizer of a model that runs elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.errors import ModelError

if TYPE_CHECKING:  # transformers is imported when a tokenizer is needed
    from multiform.models.tokenizer import Encoder


def load_encoder(name: str, prefix_token_id: int | None, add_bos_token: bool) -> Encoder:
    """The tokenizer of a folder or the hub, with the token that stands in for an empty context."""
    from multiform.models.tokenizer import Encoder

    tokenizer = _load(name)
    for prefix in (prefix_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id):
        if prefix is not None:
            return Encoder(tokenizer=tokenizer, prefix_token_id=int(prefix), add_bos_token=add_bos_token)
    what = "the tokenizer has no token for the beginning or the end of a text"
    raise ModelError(what, where=name, hint="name one with prefix_token_id")


def chat_text(tokenizer: Any, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
    """The messages in the layout of a tokenizer's chat template."""
    from jinja2 import TemplateError

    if not tokenizer.chat_template:
        what = "the tokenizer has no chat template"
        raise ModelError(what, where=tokenizer.name_or_path, hint="run without --apply_chat_template")
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
    except TemplateError as error:
        raise ModelError(f"the chat template fails: {error}", where=tokenizer.name_or_path) from error
    return str(text)


def _load(name: str) -> Any:
    from transformers import AutoTokenizer

    folder = Path(name).expanduser()
    try:
        return AutoTokenizer.from_pretrained(folder if folder.is_dir() else name, local_files_only=folder.is_dir())
    except Exception as error:  # the loader raises almost every kind
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        hint = "give a folder or a hub name: tokenizer=NAME"
        raise ModelError(f"cannot load the tokenizer: {reason}", where=name, hint=hint) from error
