"""Marks: where in a text its images and sounds belong.

``<image>`` is one of them, ``<image 2>`` a certain one. A text without marks gets them at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from multiform.config import TaskConfig
from multiform.errors import DataError
from multiform.media import MARKS, Kind, Media, MediaText

#: The media of a document by kind, as the numbers in marks count them; None where a column is empty.
Numbered: TypeAlias = Mapping[Kind, Sequence[Media | None]]
MediaField: TypeAlias = Literal["doc_to_image", "doc_to_audio"]

FIELDS: dict[Kind, MediaField] = {"image": "doc_to_image", "audio": "doc_to_audio"}
_MARK = re.compile(r"<(image|audio)(?: (\d+))?>")


def place(text: str, media: Numbered, config: TaskConfig) -> MediaText:
    """The text with a plain mark for each image and sound, and what the marks stand for.

    Numbered marks choose: what none of them names is left out, and what two name is there twice.
    """
    chosen = {kind: iter(_chosen(text, kind, items, config)) for kind, items in media.items()}
    unmarked = [kind for kind, items in media.items() if any(items) and not _marks(text, kind)]
    front = "".join(MARKS[kind] * sum(item is not None for item in media[kind]) for kind in unmarked)
    text = f"{front}\n{text}" if front else text
    ordered: list[Media] = []

    def plain(mark: re.Match[str]) -> str:
        kind: Kind = mark[1]  # type: ignore[assignment]
        if kind not in chosen:
            return mark[0]
        ordered.append(next(chosen[kind]))
        return MARKS[kind]

    return MediaText(_MARK.sub(plain, text), ordered)


def _chosen(text: str, kind: Kind, media: Sequence[Media | None], config: TaskConfig) -> list[Media]:
    """What the marks of one kind stand for, in their order."""
    numbers = _marks(text, kind)
    present = [item for item in media if item is not None]
    field = FIELDS[kind]
    if not numbers:
        return present
    if None in numbers:
        if len(numbers) != len(present) or any(numbers):
            what = f"the prompt has {_count(len(numbers), 'mark')} for {kind}s and the document has {len(present)}"
            hint = f"write {MARKS[kind]} once for each, or <{kind} 1>, <{kind} 2> to choose; check {field}"
            raise DataError(what, where=config.where(field), hint=hint)
        return present
    chosen = [media[n - 1] if n is not None and 0 < n <= len(media) else None for n in numbers]
    for n, item in zip(numbers, chosen, strict=True):
        if item is None:
            what = f"the prompt has the mark <{kind} {n}> and the document has no such {kind}"
            raise DataError(what, where=config.where(field), hint=f"check {field}; it gives {len(present)} here")
    return [item for item in chosen if item is not None]


def _marks(text: str, kind: Kind) -> list[int | None]:
    """The numbers in the marks of a kind; None for a mark without."""
    return [int(mark[2]) if mark[2] else None for mark in _MARK.finditer(text) if mark[1] == kind]


def check_marks(text: str, media: Sequence[Media], config: TaskConfig) -> None:
    """Refuse a prompt in which other marks than those of its questions would take an image."""
    for kind in dict.fromkeys(item.kind for item in media):
        number = sum(item.kind == kind for item in media)
        if text.count(MARKS[kind]) != number:
            what = f"the prompt has {text.count(MARKS[kind])} marks {MARKS[kind]} for {_count(number, kind)}"
            hint = "keep marks out of description, system instruction, gen_prefix and answers"
            raise DataError(what, where=config.where(FIELDS[kind]), hint=hint)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
