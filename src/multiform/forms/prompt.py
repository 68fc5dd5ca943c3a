"""Prompts, assembled from system text, few-shot examples, the question and the beginning of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from multiform.errors import DataError, UsageError, shorten
from multiform.forms.sample import Context
from multiform.forms.spec import ChatTemplate, FormSpec, RunSettings
from multiform.prompts.media import Media, MediaText, parts
from multiform.requests import ChatText, Instance, Request


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `after` follows its content where messages are joined as plain text."""

    role: Literal["system", "user", "assistant"]
    content: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The strings between the parts of a turn."""

    target_delimiter: str
    fewshot_delimiter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How a run writes its prompts, beside what the task and its format say."""

    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None

    @classmethod
    def of(cls, settings: RunSettings, chat_template: ChatTemplate | None = None) -> Self:
        """The options of a run, with the chat template of its model."""
        return cls(
            system_instruction=settings.system_instruction,
            apply_chat_template=bool(settings.apply_chat_template),
            fewshot_as_multiturn=settings.multiturn,
            chat_template=chat_template,
        )


def system_message(instruction: str | None, description: str, layout: Layout) -> list[Message]:
    """The system instruction and the task's description as one message, or none."""
    text = delimited(instruction or "", description, layout.fewshot_delimiter)
    return [Message("system", text)] if text else []


def shot(question: str, answer: str, prefix: str, layout: Layout) -> list[Message]:
    r"""A solved example.

    >>> plain_text(shot("2 + 2?", "4", "", Layout(" ", "\n\n")))
    '2 + 2? 4\n\n'
    """
    between = layout.target_delimiter if not prefix or needs_delimiter(question, prefix) else ""
    if not answer:
        return query(question, prefix, layout)
    return [
        Message("user", question, between),
        Message("assistant", delimited(prefix, answer, " "), layout.fewshot_delimiter),
    ]


def query(question: str, prefix: str, layout: Layout) -> list[Message]:
    r"""The evaluated question, and the beginning of its answer where the prompt gives it.

    >>> plain_text(query("2 + 2?", "The answer is", Layout("\n", "\n\n")))
    '2 + 2?\nThe answer is'
    """
    if not prefix:
        return [Message("user", question)]
    between = layout.target_delimiter if needs_delimiter(question, prefix) else ""
    return [Message("user", question, between), Message("assistant", prefix)]


def led(instruction: str, shots: Sequence[Message]) -> list[Message]:
    """The turns of few-shot examples, the first of them after an instruction."""
    if not instruction:
        return list(shots)
    return [replace(shots[0], content=instruction + shots[0].content), *shots[1:]]


def plain_text(messages: Iterable[Message]) -> str:
    """The messages as one text."""
    return "".join(message.content + message.after for message in messages)


def written(turns: Sequence[Message], options: PromptOptions, media: tuple[Media, ...] | None = None) -> str:
    """The prompt as a model gets it: in its chat template where one is applied, as plain text otherwise.

    With `media` the text knows the images and sounds that its marks stand for.
    """
    if options.apply_chat_template and options.chat_template is not None:
        chat = parts(chat_messages(turns, multiturn=options.fewshot_as_multiturn), media or ())
        begun = turns[-1].role == "assistant"
        text = options.chat_template(chat, add_generation_prompt=not begun)
    else:
        text = plain_text(turns)
    if media is None:
        return text
    return ChatText(text, media) if isinstance(text, ChatText) else MediaText(text, media)


def chat_messages(messages: Sequence[Message], *, multiturn: bool) -> list[dict[str, str]]:
    """The messages as roles and contents; not multiturn, all turns are one user message.

    >>> turns = shot("2 + 2?", "4", "", Layout(" ", " | ")) + query("3 + 3?", "", Layout(" ", ""))
    >>> chat_messages(turns, multiturn=False)
    [{'role': 'user', 'content': '2 + 2? 4 | 3 + 3?'}]
    >>> [m["role"] for m in chat_messages(turns, multiturn=True)]
    ['user', 'assistant', 'user']
    """
    if multiturn:
        return [{"role": message.role, "content": message.content} for message in messages]
    system = [message for message in messages if message.role == "system"]
    prefix = [messages[-1]] if messages and messages[-1].role == "assistant" else []
    turns = messages[len(system) : len(messages) - len(prefix)]
    # The delimiter before an answer that the assistant begins is not part of what the user says.
    body = plain_text(turns[:-1]) + (turns[-1].content if prefix else plain_text(turns[-1:])) if turns else ""
    joined = [*system, Message("user", body), *prefix]
    return [{"role": message.role, "content": message.content} for message in joined]


def plain_chat(messages: Sequence[Mapping[str, Any]], layout: Layout) -> str:
    r"""Roles and contents as one text, as examples and a question are written without a chat template.

    >>> turns = [("user", "2 + 2?"), ("assistant", "4"), ("user", "3 + 3?")]
    >>> plain_chat([{"role": role, "content": text} for role, text in turns], Layout(" ", "\n\n"))
    '2 + 2? 4\n\n3 + 3?'
    """
    text, before = "", ""
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if not isinstance(content, str):
            what = f"a message is {shorten(dict(message))}, without a text as its content"
            raise DataError(what, hint="give messages with role and content")
        delimiter = layout.target_delimiter if role == "assistant" and before == "user" else layout.fewshot_delimiter
        text = delimited(text, content, delimiter)
        before = str(role)
    return text


def needs_delimiter(before: str, after: str) -> bool:
    """Whether two texts would touch without white space between them."""
    return bool(before) and not (before[-1].isspace() or after[:1].isspace())


def delimited(before: str, after: str, delimiter: str) -> str:
    """Two texts, with the delimiter between them only where they would touch.

    >>> delimited("It is", "so", " "), delimited("It is ", "so", " "), delimited("", "so", " ")
    ('It is so', 'It is so', 'so')
    """
    if before and after and needs_delimiter(before, after):
        return before + delimiter + after
    return before + after


def is_chat(context: Any) -> bool:
    """Whether a context is a list of messages."""
    return isinstance(context, list | tuple) and bool(context) and all(isinstance(turn, Mapping) for turn in context)


def context_text(
    context: Any, form: FormSpec, *, several_inputs: bool, chat: bool, chat_template: ChatTemplate | None
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
    messages: Sequence[Mapping[str, Any]], form: FormSpec, chat: bool, chat_template: ChatTemplate | None
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
