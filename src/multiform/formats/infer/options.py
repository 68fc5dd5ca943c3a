"""Find the choices that a prompt enumerates: "A. {{a}}", "(1) {{b}}", a loop over a list, or plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from multiform.formats.infer.parts import Condition, Loop, Part, Text, Value
from multiform.formats.infer.words import BULLET, follows, is_first_label, option_mark


@dataclass(frozen=True, slots=True)
class Options:
    """The choices in a prompt template, with the parts before and after them."""

    before: tuple[Part, ...]
    after: tuple[Part, ...]
    #: The labels as they are shown; none where a loop writes them.
    labels: tuple[str, ...]
    #: An expression or plain text for each choice, or one expression for all of them.
    items: tuple[Value | Text, ...] = ()
    whole: str | None = None

    @property
    def marks(self) -> str:
        """The labels as a message shows them."""
        if BULLET in self.labels:
            return "the list of choices"
        if len(self.labels) > 2:
            return f"{self.labels[0]}. … {self.labels[-1]}."
        return " ".join(f"{label}." for label in self.labels) or "the list of choices"


def find_options(parts: Sequence[Part]) -> Options | None:
    """The only enumeration in a prompt; None where there is none, or more than one."""
    loops = [index for index, part in enumerate(parts) if isinstance(part, Loop) and _listed(part) is not None]
    runs = _runs(parts)
    if len(loops) + len(runs) != 1:
        return None
    if runs:
        return runs[0]
    at = loops[0]
    loop = parts[at]
    assert isinstance(loop, Loop)
    return Options(tuple(parts[:at]), tuple(parts[at + 1 :]), (), whole=_listed(loop))


def _runs(parts: Sequence[Part]) -> list[Options]:
    runs: list[Options] = []
    at = 0
    while at < len(parts):
        run = _run(parts, at)
        if run is None:
            at += 1
        else:
            runs.append(run)
            at = len(parts) - len(run.after)
    return runs


def _run(parts: Sequence[Part], at: int) -> Options | None:
    """The enumeration that begins at a part, if one does."""
    mark = _mark(parts, at)
    if mark is None or not is_first_label(mark[0]):
        return None
    labels, items, after = [mark[0]], [parts[at + 1]], at + 2
    while (following := _mark(parts, after)) and not following[1].strip(" \t\n,;") and follows(following[0], labels):
        labels.append(following[0])
        items.append(parts[after + 1])
        after += 2
    values = tuple(item for item in items if isinstance(item, Value))
    optional = _optional(parts, after, labels)
    before = (*parts[:at], Text(mark[1]))
    if optional:
        whole = indexed_list(values)
        return Options(before, tuple(parts[after + optional :]), (), whole=whole) if whole else None
    return Options(before, tuple(parts[after:]), tuple(labels), values) if len(values) > 1 else None


def _mark(parts: Sequence[Part], at: int) -> tuple[str, str] | None:
    """The label at the end of a text that a value follows."""
    if at + 1 >= len(parts):
        return None
    text, value = parts[at], parts[at + 1]
    return option_mark(text.text) if isinstance(text, Text) and isinstance(value, Value) else None


def _optional(parts: Sequence[Part], at: int, labels: Sequence[str]) -> int:
    """How many of the parts are further choices that a document may lack: ``{% if choices|length > 4 %}``."""
    labels_so_far = list(labels)
    for count, part in enumerate(parts[at:]):
        mark = _mark(part.body, 0) if isinstance(part, Condition) and len(part.body) == 2 else None
        if mark is None or mark[1].strip() or not follows(mark[0], labels_so_far):
            return count
        labels_so_far.append(mark[0])
    return len(parts) - at


def indexed_list(values: Sequence[Value | Text]) -> str | None:
    """The list of which the values are the first items, in order."""
    items = [re.fullmatch(r"\{\{\s*(.+)\[(\d+)\]\s*\}\}", value.source) for value in values]
    lists = {item[1] for item in items if item}
    right = all(item and int(item[2]) == index for index, item in enumerate(items))
    return lists.pop() if right and len(lists) == 1 else None


def _listed(loop: Loop) -> str | None:
    """The expression of the list whose items a loop writes, with labels or dashes; None for another loop."""
    values = [part.expression for part in loop.body if isinstance(part, Value)]
    texts = [part.text for part in loop.body if isinstance(part, Text)]
    if len(values) + len(texts) != len(loop.body) or any(re.search(r"\w", text) for text in texts):
        return None
    counted = re.fullmatch(r"range\((.+)\)", loop.items, re.DOTALL)
    if counted is None:
        items = [loop.items for value in values if re.fullmatch(rf"{loop.target}(\.strip\(\)|\s*\|\s*trim)?", value)]
    else:
        indexed = [re.fullmatch(rf"(.+)\[\s*{loop.target}\s*\]", value) for value in values]
        items = [match[1] for match in indexed if match and not _is_label(value_of(match[1]))]
    others = [value for value in values if not _names_item(value, loop)]
    return items[0] if len(items) == 1 and all(_is_label(value) for value in others) else None


def _names_item(value: str, loop: Loop) -> bool:
    return re.search(rf"(?<![\w.]){loop.target}(?!\w)", value) is not None and not _is_label(value)


def value_of(expression: str) -> str:
    """The last name of an expression, such as ``label`` of ``choices['label']``."""
    names = re.findall(r"\w+", expression)
    return names[-1] if names else ""


def _is_label(expression: str) -> bool:
    return "loop.index" in expression or re.search(r"(?i:label|letter|key)|^[A-Z]+$", expression) is not None


_LINE = re.compile(r"[ \t]*[\[(]?(?P<label>\w{1,4})[\])]?[.:)：][ \t]*(?P<text>\S[^\n]*)")


def written_options(text: str, number: int) -> tuple[str, list[str], str] | None:
    r"""The choices that are written out in a text, with the texts before and after them.

    >>> written_options("\nIs it?\nA. Yes\nB. No\nAnswer:", 2)
    ('\nIs it?\n', ['Yes', 'No'], 'Answer:')
    """
    lines = text.splitlines(keepends=True)
    for start in range(len(lines) - number + 1):
        matches = [_LINE.fullmatch(line.rstrip("\n")) for line in lines[start : start + number]]
        labels = [match["label"] for match in matches if match]
        if len(labels) == number and all(follows(label, labels[:index]) for index, label in enumerate(labels)):
            texts = [match["text"].strip() for match in matches if match]
            return "".join(lines[:start]), texts, "".join(lines[start + number :])
    return None
