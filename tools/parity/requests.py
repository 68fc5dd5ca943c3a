"""What is compared: the requests of a task's first documents in one setting, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """How many examples a prompt has, and whether it goes through a chat template."""

    shots: int
    chat: bool

    def __str__(self) -> str:
        return f"{self.shots}-shot{', chat' if self.chat else ''}"


#: No examples and a few, plain and in a chat.
SETTINGS = tuple(Setting(shots, chat) for chat in (False, True) for shots in (0, 3))


@dataclass(frozen=True, slots=True)
class Built:
    """The requests of each document: kind, arguments, repeats; or why there are none.

    `leaked` are the documents that stand among their own examples, with their answer.
    """

    docs: list[list[Any]] = field(default_factory=list)
    leaked: list[int] = field(default_factory=list)
    error: str | None = None
