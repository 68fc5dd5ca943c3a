"""An extension of the docs site's API reference (mkdocs.yml): doctests in docstrings are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: The lines of a doctest and of what it prints, up to a blank line.
_DOCTEST = re.compile(r"(?:^|(?<=\n))(>>> .*(?:\n.+)*)")


class FencedDoctests(griffe.Extension):
    """Puts each doctest into a fenced block, as Markdown would take its brackets for links."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)
