"""Control characters in printed text: shown as escapes, so that a terminal does not obey them."""

from __future__ import annotations

import re
from typing import Any, TextIO

#: Control characters but tab and newline, and those that change the direction of writing.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text with control characters written as in JSON, so that they can neither hide nor do anything.

    >>> print(visible("a\x1b[31mb"))
    a\u001b[31mb
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class VisibleStream:
    """A stream on which nothing that is written can act on the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(visible(text))

    def write_styled(self, text: str) -> int:
        """Write text whose control characters are our own, such as the colours of a table."""
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
