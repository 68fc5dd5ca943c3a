"""Prompt: what a model gets, a text or the messages of a chat, with their media; and how turns become one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from multiform.errors import DataError, excerpt
from multiform.prompts.media import Media, parts

#: The messages of a chat, each with its role and content.
Messages: TypeAlias = Sequence[Mapping[str, Any]]
#: A prompt as the hooks of a task and chat templates give it: a text, or messages.
Content: TypeAlias = str | list[dict[str, Any]]
#: Writes messages as one text, or returns them as messages for a server that applies its own template; called with
#: the messages and `add_generation_prompt`.
ChatTemplate: TypeAlias = Callable[..., Content]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text, or the messages of a chat for a server that gets them as messages.

    The text of a chat is its messages as JSON: results show it, and stored responses are known by it. `media` are the
    images and audio clips that the placeholders in the text stand for, in their order. A text that looks like messages
    is a text.

    >>> Prompt.of([{"role": "user", "content": "Hi"}]).text
    '[{"role": "user", "content": "Hi"}]'
    """

    text: str
    media: tuple[Media, ...] = ()
    messages: tuple[Mapping[str, Any], ...] | None = field(default=None, hash=False)

    @classmethod
    def of(cls, content: Prompt | str | Messages, media: Iterable[Media] = ()) -> Prompt:
        """The prompt with this text or these messages; `media` are added to it."""
        if isinstance(content, Prompt):
            return replace(content, media=tuple(media)) if media else content
        if isinstance(content, str):
            return cls(str(content), tuple(media))
        messages = tuple(dict(message) for message in content if isinstance(message, Mapping))
        if len(messages) < len(content):
            hint = "give a text, or messages with role and content"
            raise DataError(f"a prompt is {excerpt(content)}, not text or messages", hint=hint)
        return cls(json.dumps(messages, ensure_ascii=False), tuple(media), messages)

    @property
    def is_chat(self) -> bool:
        """Whether a server gets the prompt as messages."""
        return self.messages is not None

    @property
    def content(self) -> Content:
        """The text, or the messages of a chat: what the hooks of a task get."""
        return self.text if self.messages is None else [dict(message) for message in self.messages]


def is_messages(content: Any) -> bool:
    """Whether a value is a list of messages."""
    return isinstance(content, list | tuple) and bool(content) and all(isinstance(turn, Mapping) for turn in content)


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a prompt in the making; `after` follows its content if turns are joined as plain text."""

    role: Literal["system", "user", "assistant"]
    content: str
    after: str = ""
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The strings between the parts of a prompt."""

    target: str
    fewshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How a run writes its prompts, beside what the task and its format say."""

    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None


def system_turns(instruction: str | None, description: str, delimiters: Delimiters) -> list[Turn]:
    """The system instruction and the task's description as one turn, or none."""
    text = join_delimited(instruction or "", description, delimiters.fewshot)
    return [Turn("system", text)] if text else []


def shot_turns(question: Prompt | str, answer: str, prefix: str, delimiters: Delimiters) -> list[Turn]:
    r"""A solved example.

    >>> plain_text(shot_turns("2 + 2?", "4", "", Delimiters(" ", "\n\n")))
    '2 + 2? 4\n\n'
    """
    if not answer:
        return query_turns(question, prefix, delimiters)
    question = Prompt.of(question)
    between = delimiters.target if not prefix or needs_delimiter(question.text, prefix) else ""
    solution = Turn("assistant", join_delimited(prefix, answer, " "), delimiters.fewshot)
    return [Turn("user", question.text, between, question.media), solution]


def query_turns(question: Prompt | str, prefix: str, delimiters: Delimiters) -> list[Turn]:
    r"""The evaluated question, and the beginning of its answer if the prompt gives it.

    >>> plain_text(query_turns("2 + 2?", "The answer is", Delimiters("\n", "\n\n")))
    '2 + 2?\nThe answer is'
    """
    question = Prompt.of(question)
    if not prefix:
        return [Turn("user", question.text, media=question.media)]
    between = delimiters.target if needs_delimiter(question.text, prefix) else ""
    return [Turn("user", question.text, between, question.media), Turn("assistant", prefix)]


def plain_text(turns: Iterable[Turn]) -> str:
    """The turns as one text."""
    return "".join(turn.content + turn.after for turn in turns)


def render_turns(turns: Sequence[Turn], options: PromptOptions, later: Sequence[Turn] = ()) -> Prompt:
    """The prompt as a model gets it: in its chat template if one is applied, as plain text otherwise.

    `later` are the turns of a conversation after its first one, which are messages of their own in any chat.
    """
    media = tuple(medium for turn in turns for medium in turn.media)
    if not options.apply_chat_template or options.chat_template is None:
        return Prompt(plain_text([*turns, *later]), media)
    messages = chat_messages(turns, multiturn=options.fewshot_as_multiturn)
    messages = parts(messages + chat_messages(later, multiturn=True), media)
    is_begun = messages[-1]["role"] == "assistant"
    return Prompt.of(options.chat_template(messages, add_generation_prompt=not is_begun), media)


def chat_messages(turns: Sequence[Turn], *, multiturn: bool) -> list[dict[str, str]]:
    """The turns as roles and contents; not multiturn, all of them are one user message.

    >>> example = shot_turns("2 + 2?", "4", "", Delimiters(" ", " | "))
    >>> turns = example + query_turns("3 + 3?", "", Delimiters(" ", ""))
    >>> chat_messages(turns, multiturn=False)
    [{'role': 'user', 'content': '2 + 2? 4 | 3 + 3?'}]
    >>> [m["role"] for m in chat_messages(turns, multiturn=True)]
    ['user', 'assistant', 'user']
    """
    if not multiturn:
        system = [turn for turn in turns if turn.role == "system"]
        prefix = [turns[-1]] if turns and turns[-1].role == "assistant" else []
        middle = turns[len(system) : len(turns) - len(prefix)]
        # The delimiter before an answer that the assistant begins is not part of what the user says.
        body = plain_text(middle[:-1]) + (middle[-1].content if prefix else plain_text(middle[-1:])) if middle else ""
        turns = [*system, Turn("user", body), *prefix]
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def plain_chat(messages: Messages, delimiters: Delimiters) -> str:
    r"""Messages as one text, as examples and a question are written without a chat template.

    >>> turns = [("user", "2 + 2?"), ("assistant", "4"), ("user", "3 + 3?")]
    >>> plain_chat([{"role": role, "content": text} for role, text in turns], Delimiters(" ", "\n\n"))
    '2 + 2? 4\n\n3 + 3?'
    """
    text, before = "", ""
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if not isinstance(content, str):
            what = f"a message is {excerpt(dict(message))}, without a text as its content"
            raise DataError(what, hint="give messages with role and content")
        delimiter = delimiters.target if role == "assistant" and before == "user" else delimiters.fewshot
        text = join_delimited(text, content, delimiter)
        before = str(role)
    return text


def needs_delimiter(before: str, after: str) -> bool:
    """Whether two texts would touch without white space between them."""
    return bool(before) and not (before[-1].isspace() or after[:1].isspace())


def join_delimited(before: str, after: str, delimiter: str) -> str:
    """Two texts, with the delimiter between them only if they would touch.

    >>> join_delimited("It is", "so", " "), join_delimited("It is ", "so", " "), join_delimited("", "so", " ")
    ('It is so', 'It is so', 'so')
    """
    return before + delimiter + after if after and needs_delimiter(before, after) else before + after


def shared_length(text: str, other: str) -> int:
    """How many characters two texts begin with alike.

    >>> shared_length("abcd", "abxd"), shared_length("ab", "abc"), shared_length("", "a")
    (2, 2, 0)
    """
    low, high = 0, min(len(text), len(other))
    while low < high:  # halved, as comparing slices is much faster than comparing characters
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[low:middle] == other[low:middle] else (low, middle - 1)
    return low
