"""Prompts and requests between a form and the hooks of its task's class, which get and give texts or messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import DataError, UsageError, shorten
from multiform.fields import Doc
from multiform.forms.media import MediaReader
from multiform.forms.sample import Context
from multiform.forms.spec import FormSpec
from multiform.prompts.prompt import ChatTemplate, Content, Delimiters, Messages, Prompt, is_messages, plain_chat
from multiform.requests import Instance, Request

#: How many prompts are remembered that hooks got as texts.
_REMEMBERED = 64


class HookPrompts:
    """The prompts of a form as its hooks have them: texts, or messages for a server that gets messages.

    A text has no place for images and audio clips. The last prompts are remembered, so that one which a hook passes on
    unchanged keeps its media; any other text gets the media of its document.
    """

    def __init__(self, form: FormSpec, media: MediaReader) -> None:
        self._form = form
        self._media = media
        self._prompts: dict[Prompt, Prompt] = {}

    def contents(self, context: Context) -> Any:
        """The text or messages of a prompt; a list of them where a document has several inputs."""
        return [self._content(prompt) for prompt in context] if isinstance(context, list) else self._content(context)

    def to_prompts(
        self, contents: Any, doc: Doc, *, several_inputs: bool, chat: bool, chat_template: ChatTemplate | None
    ) -> Context:
        """The prompt with these contents, or one for each of several inputs.

        Messages are written by the chat template, or as plain text where there is none.
        """
        if isinstance(contents, str | Prompt) or is_messages(contents):
            return self._prompt(contents, doc, chat, chat_template)
        if not isinstance(contents, Sequence) or not contents or not all(map(_is_content, contents)):
            message = f"a prompt is {shorten(contents)}, not text or messages"
            hint = "give a text, a list of messages, or one for each input"
            raise DataError(message, where=self._form.name, hint=hint)
        prompts = [self._prompt(content, doc, chat, chat_template) for content in contents]
        if several_inputs:
            return prompts
        if len(prompts) > 1:
            message = f"{len(prompts)} prompts for a document that has one input"
            hint = "set multiple_inputs: true if each is scored with the same ending"
            raise DataError(message, where=self._form.config.where("doc_to_text"), hint=hint)
        return prompts[0]

    def _content(self, prompt: Prompt) -> Content:
        if prompt.is_chat or self._media.kinds:
            self._prompts[replace(prompt, media=())] = prompt
            if len(self._prompts) > _REMEMBERED:
                del self._prompts[next(iter(self._prompts))]
        return prompt.content

    def _prompt(
        self, content: Prompt | str | Messages, doc: Doc, chat: bool, chat_template: ChatTemplate | None
    ) -> Prompt:
        if isinstance(content, Prompt):
            return content
        prompt = Prompt.of(content)
        if prompt in self._prompts:
            return self._prompts[prompt]
        return self._media.place(prompt if isinstance(content, str) else self._write(content, chat, chat_template), doc)

    def _write(self, messages: Messages, chat: bool, chat_template: ChatTemplate | None) -> Prompt:
        if chat_template is not None:
            is_begun = messages[-1].get("role") == "assistant"
            return Prompt.of(chat_template(list(messages), add_generation_prompt=not is_begun))
        if chat:
            hint = "give chat_template, or leave out apply_chat_template for plain text"
            raise UsageError("messages without a chat template to write them with", where=self._form.name, hint=hint)
        config = self._form.config
        return Prompt(plain_chat(messages, Delimiters(config.target_delimiter, config.fewshot_delimiter)))


def _is_content(value: Any) -> bool:
    return isinstance(value, str | Prompt) or is_messages(value)


def read_requests(returned: Any, doc_id: int, *, where: str | None) -> list[Instance]:
    """The requests that a task's own `construct_requests` returned, as instances of their document."""
    items = [] if returned is None else list(returned) if isinstance(returned, list | tuple) else [returned]
    for item in items:
        if not isinstance(item, Instance | Request):
            message = f"construct_requests returned {shorten(item)}, which is no request"
            hint = "return a list of multiform.requests.Instance, or None to leave the document out"
            raise DataError(message, where=where, hint=hint)
    return [_instance(item, doc_id, index) for index, item in enumerate(items)]


def _instance(item: Instance | Request, doc_id: int, index: int) -> Instance:
    if not isinstance(item, Instance):
        return Instance(doc_id, index, item)
    return item if item.doc_id == doc_id else replace(item, doc_id=doc_id)
