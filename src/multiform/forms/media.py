"""The images and sounds of a task's documents: from columns, files or functions to the marks in its prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from multiform.errors import ConfigError, DataError, MultiformError, nearest
from multiform.fields import Doc
from multiform.forms.doc_fields import FieldReader
from multiform.forms.spec import FormSpec
from multiform.labels import parse_literal_list
from multiform.prompts.media import MARKS, Kind, Media
from multiform.prompts.prompt import Prompt, Turn, plain_text
from multiform.prompts.template import has_markup
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.media_files import Finder, file_finder, media_from

#: The media of a document by kind, as the numbers in marks count them; None if a column is empty.
Numbered: TypeAlias = Mapping[Kind, Sequence[Media | None]]
MediaField: TypeAlias = Literal["doc_to_image", "doc_to_audio"]

FIELDS: dict[Kind, MediaField] = {"image": "doc_to_image", "audio": "doc_to_audio"}
_MARK = re.compile(r"<(image|audio)(?: (\d+))?>")


class MediaReader:
    """Reads what `doc_to_image` and `doc_to_audio` name, and puts it into texts.

    A hook of the form, a method of the same name, gives the images or sounds of a document instead.
    """

    def __init__(self, form: FormSpec, reader: FieldReader) -> None:
        config = form.config
        for field in FIELDS.values():
            if getattr(config, field) is not None and config.output_type == "loglikelihood_rolling":
                message = f"{field} does not go with loglikelihood_rolling, which scores a text without a prompt"
                hint = f"remove {field}, or use output_type: loglikelihood"
                raise ConfigError(message, where=config.where(field), hint=hint)
        self.config = config
        self.reader = reader
        self._mirror, self._hooks = form.mirror, form.hooks

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of media in the task's prompts."""
        return [kind for kind, field in FIELDS.items() if getattr(self.config, field) or field in self._hooks]

    def value(self, field: MediaField, spec: Any, doc: Doc) -> Any:
        """The images or sounds as the document has them: a value, or a list without empty ones."""
        value = self._field_value(getattr(self.config, field) if spec is None else spec, doc, field)
        return [item for item in value if item is not None] if isinstance(value, list) else value

    def place(self, prompt: Prompt, doc: Doc) -> Prompt:
        """The prompt with the images and sounds of its document; as it is if the task has none."""
        if not self.kinds:
            return prompt
        placed = place(prompt.text, {kind: self._of(doc, kind) for kind in self.kinds}, self.config)
        return replace(prompt, media=placed.media) if prompt.is_chat else placed

    def check_turns(self, turns: Sequence[Turn]) -> None:
        """Refuse a prompt whose marks are not those of the media in its few-shot examples and its question."""
        media = [item for turn in turns for item in turn.media]
        if media:
            check_marks(plain_text(turns), media, self.config)

    def read_media(self, value: Any, kind: Kind) -> list[Media | None]:
        """The media that a field's value holds: one value, or a list of them."""
        values = list(value) if isinstance(value, list | tuple) else [value]
        items = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
        try:
            return [None if item is None else media_from(item, kind, self._find) for item in items]
        except MultiformError as error:
            raise error.relocate(self.config.where(FIELDS[kind])) from error

    def _of(self, doc: Doc, kind: Kind) -> list[Media | None]:
        field = FIELDS[kind]
        has_hook, spec = field in self._hooks, getattr(self.config, field)
        return self.read_media(self._hooks[field](doc) if has_hook else self._field_value(spec, doc, field), kind)

    def _field_value(self, spec: Any, doc: Doc, field: MediaField) -> Any:
        """What a document has for a media field: the values of columns, None for empty or missing ones of a list."""
        if spec is None:
            return None
        if not isinstance(spec, list):
            value = self.reader.value(spec, doc, field)
            listed = parse_literal_list(value) if isinstance(value, str) and has_markup(str(spec)) else None
            return value if listed is None else listed
        if spec and not any(item in doc or has_markup(item) for item in spec):
            message = f"none of the columns {', '.join(spec)} is there"
            hint = nearest(spec[0], doc, listed="the columns are")
            raise DataError(message, where=self.config.where(field), hint=hint)
        return [self.reader.value(item, doc, field) if item in doc or has_markup(item) else None for item in spec]

    @cached_property
    def _find(self) -> Finder:
        return file_finder(self.config, self._mirror)


def place(text: str, media: Numbered, config: TaskConfig) -> Prompt:
    """The text with a plain mark for each image and sound, and what the marks stand for.

    Numbered marks choose: what none of them names is left out, and what two name is there twice.
    """
    chosen = {kind: iter(_choose_media(text, kind, items, config)) for kind, items in media.items()}
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

    plain_marks = _MARK.sub(plain, text)
    return Prompt(plain_marks, tuple(ordered))


def _choose_media(text: str, kind: Kind, media: Sequence[Media | None], config: TaskConfig) -> list[Media]:
    """What the marks of one kind stand for, in their order."""
    numbers = _marks(text, kind)
    present = [item for item in media if item is not None]
    field = FIELDS[kind]
    if not numbers:
        return present
    if None in numbers:
        if len(numbers) != len(present) or any(numbers):
            message = f"the prompt has {_count(len(numbers), 'mark')} for {kind}s and the document has {len(present)}"
            hint = f"write {MARKS[kind]} once for each, or <{kind} 1>, <{kind} 2> to choose; check {field}"
            raise DataError(message, where=config.where(field), hint=hint)
        return present
    chosen = [media[n - 1] if n is not None and 0 < n <= len(media) else None for n in numbers]
    for n, item in zip(numbers, chosen, strict=True):
        if item is None:
            message = f"the prompt has the mark <{kind} {n}> and the document has no such {kind}"
            raise DataError(message, where=config.where(field), hint=f"check {field}; it gives {len(present)} here")
    return [item for item in chosen if item is not None]


def _marks(text: str, kind: Kind) -> list[int | None]:
    """The numbers in the marks of a kind; None for a mark without."""
    return [int(mark[2]) if mark[2] else None for mark in _MARK.finditer(text) if mark[1] == kind]


def check_marks(text: str, media: Sequence[Media], config: TaskConfig) -> None:
    """Refuse a prompt in which other marks than those of its questions would take an image."""
    for kind in dict.fromkeys(item.kind for item in media):
        number = sum(item.kind == kind for item in media)
        if text.count(MARKS[kind]) != number:
            message = f"the prompt has {text.count(MARKS[kind])} marks {MARKS[kind]} for {_count(number, kind)}"
            hint = "keep marks out of description, system instruction, gen_prefix and answers"
            raise DataError(message, where=config.where(FIELDS[kind]), hint=hint)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
