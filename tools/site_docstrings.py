"""An extension of the docs site's API reference (mkdocs.yml): docstrings, which are plain text, as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: The lines of a doctest and of what it prints, up to a blank line.
_DOCTEST = re.compile(r"(?:^|(?<=\n))(>>> .*(?:\n.+)*)")

#: Lines such as ``limit, samples: how many documents``, with lines that are indented below them.
_ARGUMENTS = re.compile(r"(?:^|(?<=\n\n))(?:[\w, ]+: .+\n?(?: {4}.+\n?)*){2,}(?=\n|$)")
#: A paragraph whose first line is short, such as a prompt: its lines are not those of wrapped text.
_SHORT_LINE = re.compile(r"(?<=\n\n)([^\s>*`].{0,89}\n[^\s*-].*(?:\n.+)*)(?=\n\n|$)")
_ARGUMENT = re.compile(r"^(\w[\w, ]*): ", re.MULTILINE)


class MarkdownDocstrings(griffe.Extension):
    """Puts doctests and prompts into fenced blocks, as Markdown would join their lines, and lists arguments."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)
            text = _ARGUMENTS.sub(lambda block: _ARGUMENT.sub(r"* `\1`: ", block.group()), text)
            obj.docstring.value = _SHORT_LINE.sub(r"```text\n\1\n```", text)
