"""Chat templates of a tokenizer: the one that is used, and the prompts that it makes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from multiform.errors import ModelError, UsageError, nearest

logger = logging.getLogger("multiform")


def written_chat(
    write: Callable[[list[dict[str, Any]]], str], messages: Sequence[Mapping[str, Any]], *, name: str
) -> str:
    """The messages as one string; without the system message where the template of the model `name` refuses it."""
    chat = [dict(message) for message in messages]
    try:
        return write(chat)
    except jinja2.TemplateError as error:
        # Templates of models that were trained without a system role refuse one.
        others = [message for message in chat if message["role"] != "system"]
        if len(others) == len(chat):
            raise ModelError(f"the chat template fails: {error}", where=name) from error
        logger.warning("%s: the chat template fails (%s); left out the system message", name, error)
        return write(others)


def chosen_template(given: str | Mapping[str, str] | None, name: str | None) -> str | None:
    """The template of that name among a tokenizer's, or its default or only one; None where it has none.

    >>> chosen_template({"default": "a", "tool_use": "b"}, "tool_use")
    'b'
    """
    if not isinstance(given, Mapping):
        return given or None
    wanted = name or "default"
    if wanted not in given:
        hint = nearest(wanted, given, listed="templates")
        raise UsageError(f"the tokenizer has no chat template '{wanted}'", where="--apply_chat_template", hint=hint)
    return given[wanted]
