"""Messages, and the formatters that make one text of them."""

from __future__ import annotations

from collections.abc import Sequence

from multiform.formats.dialects.samples import Message, Property, Role

__all__ = ["BaseFormatter", "ConcatFormatter", "IdentityFormatter", "Message", "Property", "Role"]


class BaseFormatter:
    """Joins messages; `after` is what follows those of the system and, but for the last message, the assistant."""

    after = ""

    def format(self, messages: Sequence[Message], output_mode: str = "string") -> str:
        """The messages as one text; white space around the last one goes."""
        if output_mode != "string":
            raise ValueError(f"output_mode {output_mode!r} is not known here; use 'string'")
        *before, last = messages
        texts = [message.content + ("" if message.role is Role.USER else self.after) for message in before]
        ends = self.after if last.role is Role.SYSTEM else ""
        return "".join([*texts, last.content + ends if last.role is Role.SYSTEM else last.content.strip()])


class IdentityFormatter(BaseFormatter):
    """Puts the messages one after the other."""


class ConcatFormatter(BaseFormatter):
    """Puts an empty line after each message of the system and the assistant."""

    after = "\n\n"
