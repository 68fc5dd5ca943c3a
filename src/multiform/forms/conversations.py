"""Conversation: a document with several user turns, to each of which the model replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from multiform.errors import DataError, shorten
from multiform.forms.doc_fields import DocFields, FieldReader
from multiform.prompts.prompt import Delimiters, Prompt, PromptOptions, Turn, render_turns

_HINT = "give texts, each a turn of the user, or messages with role (user or assistant) and content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The turns of one document, which begin and end with the user's; the model replies where no reply is given.

    `opening` are the turns before the conversation: the system's, and few-shot examples. `references` are the
    right replies, some for each reply of the model.
    """

    turns: tuple[Turn, ...]
    opening: tuple[Turn, ...] = ()
    references: tuple[tuple[str, ...], ...] = ()

    @property
    def replies(self) -> int:
        """How often the model replies: after each turn of the user's that no given reply follows."""
        return len(self._open_turns)

    @property
    def _open_turns(self) -> list[int]:
        following = [*(turn.role for turn in self.turns[1:]), "user"]
        users = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        return [index for index in users if following[index] == "user"]

    def before(self, replies: Sequence[str]) -> list[Turn]:
        """The turns up to the one that is to be replied to next, with the replies so far in between."""
        turns: list[Turn] = []
        given, last = list(replies), self._open_turns[len(replies)]
        for index, turn in enumerate(self.turns[: last + 1]):
            turns.append(turn)
            if index in self._open_turns and index < last:
                turns.append(Turn("assistant", given.pop(0)))
        return turns

    def messages(self, replies: Sequence[str]) -> tuple[dict[str, str], ...]:
        """The same as messages, without what stands before the conversation."""
        return tuple({"role": turn.role, "content": turn.content} for turn in self.before(replies))

    def prompt(self, replies: Sequence[str], options: PromptOptions, delimiters: Delimiters) -> Prompt:
        """The prompt of the next reply. As plain text, turns are joined as few-shot examples are."""
        first, *later = self.before(replies)
        if not options.apply_chat_template and later:
            first = replace(first, after=delimiters.target if later[0].role == "assistant" else delimiters.fewshot)
            after = {"user": delimiters.target, "assistant": delimiters.fewshot}
            later = [replace(turn, after=after[turn.role]) for turn in later[:-1]] + later[-1:]
        return render_turns([*self.opening, first], options, later=later)


def read_turns(fields: DocFields, reader: FieldReader) -> tuple[Turn, ...]:
    """What a document says after the first turn of its user; turns that are null are left out."""
    config = reader.config
    where = config.where("doc_to_turns")
    value = reader.value(config.doc_to_turns, fields.doc, "doc_to_turns")
    if not isinstance(value, list | tuple):
        raise DataError(f"expected a list of turns, got {shorten(value)}", where=where, hint=_HINT)
    turns = tuple(_turn(entry, where) for entry in value if entry is not None)
    roles = ["user", *(turn.role for turn in turns)]
    if roles[-1] == "assistant" or ("assistant", "assistant") in pairwise(roles):
        problem = "ends with" if roles[-1] == "assistant" else "has two replies after each other:"
        message = f"the conversation {problem} a message of the assistant"
        raise DataError(message, where=where, hint="have a turn of the user follow every given reply")
    return turns


def _turn(entry: Any, where: str | None) -> Turn:
    if isinstance(entry, str):
        return Turn("user", entry)
    if (
        isinstance(entry, Mapping)
        and entry.get("role") in ("user", "assistant")
        and isinstance(entry.get("content"), str)
    ):
        return Turn(entry["role"], entry["content"])
    raise DataError(f"a turn is {shorten(entry)}", where=where, hint=_HINT)
