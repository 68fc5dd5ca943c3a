"""The images and sounds of a task's documents: from columns, files or functions to the marks in its prompts."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from multiform.errors import ConfigError, DataError, MultiformError, UsageError, excerpt, nearest, quantity
from multiform.fields import Doc
from multiform.forms.doc_fields import FieldReader
from multiform.forms.spec import FormSpec
from multiform.hashing import sha256
from multiform.labels import parse_literal_list
from multiform.paths import display, mirror_folders, read_file
from multiform.prompts.media import MARKS, Kind, Media, decode_wav, is_image, pixel_hash, waveform_from_array
from multiform.prompts.prompt import Prompt, Turn, plain_text
from multiform.prompts.template import has_markup
from multiform.tasks.config import TaskConfig

MediaField: TypeAlias = Literal["doc_to_image", "doc_to_audio"]

FIELDS: dict[Kind, MediaField] = {"image": "doc_to_image", "audio": "doc_to_audio"}
_MARK = re.compile(r"<(image|audio)(?: (\d+))?>")
#: Gives the file that a path in a document means.
Finder: TypeAlias = Callable[[str], Path]
#: The variable with folders of images and sounds elsewhere.
_MEDIA_PATH = "MULTIFORM_MEDIA_PATH"
_IMAGE_HINT = "give an image of Pillow, a path, bytes, a data URL, or a mapping with bytes or path"
_AUDIO_HINT = "give a mapping with array and sampling_rate, a path to a WAV file, or its bytes"


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
        """Refuse a prompt in which other marks than those of its examples and its question would take an image."""
        numbers = Counter(item.kind for turn in turns for item in turn.media)
        for kind, number in numbers.items():
            marks = plain_text(turns).count(MARKS[kind])
            if marks != number:
                message = f"the prompt has {marks} marks {MARKS[kind]} for {quantity(number, kind)}"
                hint = "keep marks out of description, system instruction, gen_prefix and answers"
                raise DataError(message, where=self.config.where(FIELDS[kind]), hint=hint)

    def read_media(self, value: Any, kind: Kind) -> list[Media | None]:
        """The media that a field's value holds: one value, or a list of them."""
        values = value if isinstance(value, list | tuple) else [value]
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


def place(text: str, media: Mapping[Kind, Sequence[Media | None]], config: TaskConfig) -> Prompt:
    """The text with a plain mark for each image and sound, and what the marks stand for; None is an empty column.

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
            message = f"the prompt has {quantity(len(numbers), 'mark')} for {kind}s and the document has {len(present)}"
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


# From the values of columns to images and sounds.


def media_from(value: Any, kind: Kind, find: Finder) -> Media:
    """The image or sound of a value."""
    if isinstance(value, str | Path):
        return _from_text(str(value), kind, find)
    if isinstance(value, bytes | bytearray | memoryview):
        return _from_bytes(bytes(value), kind)
    if isinstance(value, Mapping) and (value.get("bytes") is not None or value.get("path")) and "array" not in value:
        inner = value["bytes"] if value.get("bytes") is not None else value["path"]
        return media_from(inner, kind, find)
    if kind == "audio":
        return _from_array(value)
    if is_image(value):
        return Media("image", pixel_hash(value), f"{value.width}x{value.height}", value)
    raise DataError(f"expected an image, got {type(value).__name__} {excerpt(value, 40)}", hint=_IMAGE_HINT)


def _from_text(text: str, kind: Kind, find: Finder) -> Media:
    if text.startswith("data:"):
        head, _, data = text.partition(",")
        try:
            return _from_bytes(base64.b64decode(data, validate=True), kind)
        except binascii.Error as error:
            raise DataError(f"the data URL {excerpt(head, 40)} is not valid base64", hint=_IMAGE_HINT) from error
    if text.startswith(("http://", "https://")):
        raise DataError(f"{excerpt(text)} is on the network", hint="download it and give the path of the file")
    path = find(text)
    try:
        media = _from_bytes(read_file(path), kind)
    except DataError as error:
        raise error.relocate(None, what=f"{display(path)}: {error.what}") from error
    except OSError as error:
        raise DataError(f"{display(path)} cannot be read: {error.strerror}", hint="check the file") from error
    # The path instead of the content: a dataset of large images need not be in memory.
    return Media(kind, media.sha256, media.size, path, origin=display(path))


def _from_bytes(data: bytes, kind: Kind) -> Media:
    size = decode_wav(data).size if kind == "audio" else _image_size(data)
    return Media(kind, sha256(data), size, data)


def _image_size(data: bytes) -> str:
    """The width and height of an image file; a broken file is an error here, before any model runs."""
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("images need the package 'pillow'", hint="run: pip install 'multiform[hf]'") from error
    try:
        with Image.open(io.BytesIO(data)) as image:
            size = f"{image.width}x{image.height}"
            if image.format == "PNG":
                image.verify()  # its checksums cover every byte
            else:
                image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())
        message = f"not an image that can be read ({len(data)} bytes: {excerpt(reason, 80)})"
        raise DataError(message, hint="give a PNG, JPEG, WebP or other file that Pillow knows") from error
    return size


def _from_array(value: Any) -> Media:
    # `datasets` gives a decoder that has the keys of the mapping it once gave.
    if isinstance(value, Mapping) or hasattr(value, "get_all_samples"):
        try:
            array, rate = value["array"], value["sampling_rate"]
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"the audio has no {error}", hint=_AUDIO_HINT) from error
        sound = waveform_from_array(array, rate)
        digest = sha256(f"{sound.rate} ", sound.samples.tobytes())
        return Media("audio", digest, sound.size, sound)
    hint = f"an array needs its sampling rate; {_AUDIO_HINT}" if hasattr(value, "shape") else _AUDIO_HINT
    raise DataError(f"expected audio, got {type(value).__name__} {excerpt(value, 40)}", hint=hint)


def file_finder(config: TaskConfig, mirror: Path | None) -> Finder:
    """Finds the files that paths in documents mean.

    They are looked for beside the data, in a mirror or on the disk, then beside the task file and
    in the current folder. A document cannot name files outside of these: they would be sent to a model on a server.
    """
    roots = list(dict.fromkeys(_roots(config, mirror)))
    named = [Path(folder) for folder in os.environ.get(_MEDIA_PATH, "").split(os.pathsep) if folder]
    cache = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    allowed = [root.resolve() for root in (*roots, *named, cache / "datasets", cache / "hub")]

    def find(name: str) -> Path:
        try:
            path = next((root / name for root in roots if (root / name).is_file()), None)
            real = None if path is None else path.resolve()  # also if links are followed
        except (OSError, ValueError):  # a text that no file name can be
            path = real = None
        if path is None or real is None:
            looked = ", ".join(display(root) for root in roots)
            raise DataError(f"no file {excerpt(name)}", hint=f"check the path; looked in {looked}")
        if not any(real.is_relative_to(folder) for folder in allowed):
            named_file = f"the document names the file {excerpt(str(real))}"
            hint = f"put it beside the data, or name its folder in the variable {_MEDIA_PATH}"
            raise DataError(f"{named_file}, which is outside of the folders of data and task", hint=hint)
        return path

    return find


def _roots(config: TaskConfig, mirror: Path | None) -> list[Path]:
    source = config.stated.source
    bases = [*([source.file.parent] if source else []), Path.cwd()]
    path, name = str(config.dataset_path or ""), config.dataset_name
    data_files = config.dataset_kwargs.get("data_files") or []
    values = list(data_files.values()) if isinstance(data_files, dict) else [data_files]
    files = [file for value in values for file in (value if isinstance(value, list) else [value])]
    roots: list[Path] = []
    for folder in mirror_folders(mirror) if mirror is not None and path else ():
        roots += [folder / path / (name or "default"), folder / path]
    for base in bases:
        if path:
            target = base / path
            roots += [target / name] if name else []
            roots.append(target.parent if target.is_file() else target)
        roots += [(base / file).parent for file in files if isinstance(file, str)]
    return [root for root in [*roots, *bases] if root.is_dir()]
