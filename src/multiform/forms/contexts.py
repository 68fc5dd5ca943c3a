"""Contexts and requests that overridden methods of a task return: chat messages, and requests of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import DataError, UsageError, shorten
from multiform.forms.form import ChatTemplate, Form
from multiform.forms.prompt import Layout, plain_chat
from multiform.forms.sample import Context
from multiform.requests import Instance, Request


def is_chat(context: Any) -> bool:
    """Whether a context is a list of messages."""
    return isinstance(context, list | tuple) and bool(context) and all(isinstance(turn, Mapping) for turn in context)


def context_text(
    context: Any, form: Form, *, several_inputs: bool, chat: bool, chat_template: ChatTemplate | None
) -> Context:
    """A context as text, or as one text for each of several inputs.

    Messages are written by the chat template, or as plain text where there is none.
    """
    if isinstance(context, str):
        return context
    if is_chat(context):
        return _chat_text(context, form, chat, chat_template)
    if not isinstance(context, Sequence) or not context or not all(isinstance(c, str) or is_chat(c) for c in context):
        message = f"a prompt is {shorten(context)}, not text or messages"
        raise DataError(message, where=form.name, hint="give a text, a list of messages, or one for each input")
    texts = [c if isinstance(c, str) else _chat_text(c, form, chat, chat_template) for c in context]
    if several_inputs:
        return texts
    if len(texts) > 1:
        message, place = f"{len(texts)} prompts for a document that has one input", form.config.where("doc_to_text")
        raise DataError(message, where=place, hint="set multiple_inputs: true if each is scored with the same ending")
    return texts[0]


def _chat_text(
    messages: Sequence[Mapping[str, Any]], form: Form, chat: bool, chat_template: ChatTemplate | None
) -> str:
    if chat_template is not None:
        return chat_template(list(messages), add_generation_prompt=messages[-1].get("role") != "assistant")
    if chat:
        hint = "give chat_template, or leave out apply_chat_template for plain text"
        raise UsageError("messages without a chat template to write them with", where=form.name, hint=hint)
    return plain_chat(messages, Layout(form.config.target_delimiter, form.config.fewshot_delimiter))


def constructed(returned: Any, doc_id: int, *, where: str | None) -> list[Instance]:
    """What a task's own `construct_requests` returned, as requests of its document."""
    listed = [] if returned is None else list(returned) if isinstance(returned, list | tuple) else [returned]
    for item in listed:
        if not isinstance(item, Instance | Request):
            message = f"construct_requests returned {shorten(item)}, which is no request"
            hint = "return a list of multiform.requests.Instance, or None to leave the document out"
            raise DataError(message, where=where, hint=hint)
    return [_of_doc(item, doc_id, index) for index, item in enumerate(listed)]


def _of_doc(item: Instance | Request, doc_id: int, index: int) -> Instance:
    if not isinstance(item, Instance):
        return Instance(doc_id, index, item)
    return item if item.doc_id == doc_id else replace(item, doc_id=doc_id)
