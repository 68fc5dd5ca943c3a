"""The messages of a prompt, and how texts are joined."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


def requires_delimiter(prefix: str, suffix: str) -> bool:
    """Whether two texts would run into each other: no white space on either side of where they meet."""
    return bool(prefix) and not (prefix[-1].isspace() or suffix[0].isspace())


def maybe_delimit(prefix: str | None, suffix: str | None, delimiter: str = " ") -> str:
    """Both texts, with the delimiter between them where they would run into each other.

    >>> maybe_delimit("Answer:", "B"), maybe_delimit("Answer: ", "B"), maybe_delimit(None, "B")
    ('Answer: B', 'Answer: B', 'B')
    """
    if not prefix or not suffix:
        return prefix or suffix or ""
    return f"{prefix}{delimiter if requires_delimiter(prefix, suffix) else ''}{suffix}"


def ends_with_whitespace(s: str) -> bool:
    """Whether the last character is white space."""
    return s[-1:].isspace()


@dataclass
class Message:
    """One message of a prompt; the delimiter follows its content where the prompt is plain text.

    >>> Message("user", "Why?", "\\n").to_text()
    'Why?\\n'
    """

    role: str
    content: str
    _delimiter: str = ""

    def to_dict(self) -> dict[str, str]:
        """The message as chat templates want it."""
        return {"role": self.role, "content": self.content}

    def to_text(self) -> str:
        """The content with its delimiter."""
        return f"{self.content}{self._delimiter}"


def messages_to_text(messages: Sequence[Message]) -> str:
    """A prompt as plain text."""
    return "".join(message.to_text() for message in messages)


def multiturn_to_singleturn(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A chat with all turns in one user message; the system message and the beginning of the answer stay apart.

    >>> multiturn_to_singleturn([Message("user", "1+1?", " "), Message("assistant", "2", " "), Message("user", "2+2?")])
    [{'role': 'user', 'content': '1+1? 2 2+2?'}]
    """
    turns = list(messages)
    first = [turns.pop(0)] if turns[0].role == "system" else []
    last = [turns.pop()] if turns[-1].role == "assistant" else []
    turns[-1] = replace(turns[-1], _delimiter="")
    return [message.to_dict() for message in [*first, Message("user", messages_to_text(turns)), *last]]


def format_turn(content: str, role: str, type: str | None = None) -> dict[str, str]:
    """A message as a dict, with its type if it has one."""
    return {**({"type": type} if type else {}), "role": role, "content": content}


def random_task_id() -> str:
    """Eight random letters and digits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(8))
