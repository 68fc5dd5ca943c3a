"""Text in other languages: what a terminal, Markdown, CSV or LaTeX would take for a command is written as text."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

#: Control characters but tab and newline, and those that change the direction of writing.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

#: What Markdown would take for a column, an escape, code, a tag, a formula, or the middle of a link.
_MARKDOWN = re.compile(r"[\\|`$]|\](?=[(\[])")
#: The first characters of a cell that spreadsheets take for a formula.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_LATEX = {
    **{character: f"\\{character}" for character in "_%&#{}$"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}


def visible(text: str) -> str:
    r"""The text with control characters written as in JSON, so that they can neither hide nor do anything.

    >>> print(visible("a\x1b[31mb"))
    a\u001b[31mb
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """The text without control characters and line breaks."""
    return visible(text).replace("\n", " ")


def markdown_text(text: str) -> str:
    r"""A text that Markdown shows as it is, also in a cell of a table.

    >>> print(markdown_text("a|b <img> [c](d)"))
    a\|b &lt;img> [c\](d)
    """
    return _MARKDOWN.sub(lambda match: f"\\{match[0]}", one_line(text)).replace("<", "&lt;")


def csv_cell(value: Any) -> Any:
    """A value that a spreadsheet shows: a text that it would run as a formula gets an apostrophe before it.

    >>> csv_cell("=HYPERLINK(A1)"), csv_cell(-0.5), csv_cell("quiz")
    ("'=HYPERLINK(A1)", -0.5, 'quiz')
    """
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value


def latex_text(text: str) -> str:
    r"""A text that LaTeX prints as it is.

    >>> print(latex_text(r"acc_norm ↑ \input{x}"))
    acc\_norm $\uparrow$ \textbackslash{}input\{x\}
    """
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def screen_width(stream: TextIO) -> int | None:
    """How many columns the terminal has that the stream goes to; None for a file or pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fit(text: str, stream: TextIO) -> str:
    """The text in lines that fit the terminal of the stream; a number, name or path is not split at its edge."""
    width = screen_width(stream)
    if width is None:
        return visible(text)
    return textwrap.fill(visible(text), width, break_long_words=False, break_on_hyphens=False)


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


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> duration(5), duration(80), duration(3725)
    ('0:05', '1:20', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines, each column as wide as its widest cell.

    >>> list(align([["a", "b"], ["long", "c"]]))
    ['a     b', 'long  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
