"""The images and sounds of a task's documents: from columns, files or functions into its prompts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, MultiformError, nearest
from multiform.fields import Doc
from multiform.jinja import has_markup, parse_literal_list
from multiform.media import Kind, Media, MediaText
from multiform.tasks.documents import TaskDocuments
from multiform.tasks.marks import FIELDS, MediaField, Numbered, place
from multiform.tasks.media_files import Finder, file_finder, media_from
from multiform.tasks.reader import DocReader


class TaskMedia(TaskDocuments):
    """Reads what `doc_to_image` and `doc_to_audio` name, and puts it into texts."""

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        self.reader = DocReader(self.config)
        self._mirror = dataset_mirror
        check_media(self.config)

    def doc_to_image(self, doc: Doc, doc_to_image: Any = None) -> Any:
        """The images as the document has them: a value, or a list without empty ones; None where there are none."""
        return self._field("doc_to_image", doc_to_image, doc)

    def doc_to_audio(self, doc: Doc, doc_to_audio: Any = None) -> Any:
        """The sounds as the document has them, like `doc_to_image`."""
        return self._field("doc_to_audio", doc_to_audio, doc)

    @property
    def media_kinds(self) -> list[Kind]:
        """What the task's prompts have beside text."""
        return [kind for kind, field in FIELDS.items() if getattr(self.config, field) or self._overrides(field)]

    def with_media(self, text: str, doc: Doc) -> str:
        """The text with the images and sounds of its document; as it is where the task has none."""
        kinds = self.media_kinds
        if not kinds or isinstance(text, MediaText):
            return text
        return place(text, self._media(doc, kinds), self.config)

    def _media(self, doc: Doc, kinds: list[Kind]) -> Numbered:
        made: dict[Kind, list[Media | None]] = {}
        for kind in kinds:
            field = FIELDS[kind]
            if self._overrides(field):
                value = getattr(self, field)(doc)
            else:
                value = field_value(self.reader, getattr(self.config, field), doc, field)
            made[kind] = read_media(value, kind, self._find, self.config)
        return made

    def _field(self, field: MediaField, spec: Any, doc: Doc) -> Any:
        value = field_value(self.reader, getattr(self.config, field) if spec is None else spec, doc, field)
        return [one for one in value if one is not None] if isinstance(value, list) else value

    def _overrides(self, field: MediaField) -> bool:
        return getattr(type(self), field) is not getattr(TaskMedia, field)

    @cached_property
    def _find(self) -> Finder:
        return file_finder(self.config, self._mirror)


def check_media(config: TaskConfig) -> None:
    """Refuse images and sounds where no prompt is there to hold them."""
    for field in FIELDS.values():
        if getattr(config, field) is not None and config.output_type == "loglikelihood_rolling":
            what = f"{field} does not go with loglikelihood_rolling, which scores a text without a prompt"
            hint = f"remove {field}, or use output_type: loglikelihood"
            raise ConfigError(what, where=config.where(field), hint=hint)


def field_value(reader: DocReader, spec: Any, doc: Doc, field: MediaField) -> Any:
    """What a document has for a media field: the values of columns, None for empty or missing ones of a list."""
    if spec is None:
        return None
    if not isinstance(spec, list):
        value = reader.read(spec, doc, field)
        listed = parse_literal_list(value) if isinstance(value, str) and has_markup(str(spec)) else None
        return value if listed is None else listed
    if spec and not any(item in doc or has_markup(item) for item in spec):
        what = f"none of the columns {', '.join(spec)} is there"
        hint = nearest(spec[0], doc, listed="the columns are")
        raise DataError(what, where=reader.config.where(field), hint=hint)
    return [reader.read(item, doc, field) if item in doc or has_markup(item) else None for item in spec]


def read_media(value: Any, kind: Kind, find: Finder, config: TaskConfig) -> list[Media | None]:
    """The media that a field's value holds: one value, or a list of them."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    flat = [one for item in values for one in (item if isinstance(item, list | tuple) else [item])]
    try:
        return [None if one is None else media_from(one, kind, find) for one in flat]
    except MultiformError as error:
        raise type(error)(error.what, where=config.where(FIELDS[kind]), hint=error.hint) from error
