"""Images and sounds from the values of dataset columns."""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from multiform.errors import DataError, UsageError, shorten
from multiform.paths import mirror_folders, read_file
from multiform.prompts.media import Kind, Media, Waveform, decode_wav, pixel_hash, sha256, waveform_from_array
from multiform.tasks.config import TaskConfig
from multiform.tasks.source import display

#: Gives the file that a path in a document means.
Finder: TypeAlias = Callable[[str], Path]

#: The variable with folders of images and sounds elsewhere.
_MEDIA_PATH = "MULTIFORM_MEDIA_PATH"
_IMAGE_HINT = "give an image of Pillow, a path, bytes, a data URL, or a mapping with bytes or path"
_AUDIO_HINT = "give a mapping with array and sampling_rate, a path to a WAV file, or its bytes"


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
    if hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "width"):
        return Media("image", pixel_hash(value), f"{value.width}x{value.height}", value)
    raise DataError(f"expected an image, got {type(value).__name__} {shorten(value, 40)}", hint=_IMAGE_HINT)


def _from_text(text: str, kind: Kind, find: Finder) -> Media:
    if text.startswith("data:"):
        head, _, data = text.partition(",")
        try:
            return _from_bytes(base64.b64decode(data, validate=True), kind)
        except binascii.Error as error:
            raise DataError(f"the data URL {shorten(head, 40)} is not valid base64", hint=_IMAGE_HINT) from error
    if text.startswith(("http://", "https://")):
        raise DataError(f"{shorten(text)} is on the network", hint="download it and give the path of the file")
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
        message = f"not an image that can be read ({len(data)} bytes: {shorten(reason, 80)})"
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
        return Media("audio", _sound_hash(sound), sound.size, sound)
    hint = f"an array needs its sampling rate; {_AUDIO_HINT}" if hasattr(value, "shape") else _AUDIO_HINT
    raise DataError(f"expected audio, got {type(value).__name__} {shorten(value, 40)}", hint=hint)


def without_decoding(rows: Any) -> Any:
    """The rows of a `datasets.Dataset` with sounds as files, if the package that would decode them is missing."""
    features = getattr(rows, "features", None)
    if not isinstance(features, Mapping) or find_spec("torchcodec") is not None:
        return rows
    for name, feature in features.items():
        if type(feature).__name__ == "Audio" and feature.decode:
            rows = rows.cast_column(name, type(feature)(decode=False))
    return rows


def _sound_hash(sound: Waveform) -> str:
    return sha256(f"{sound.rate} ".encode(), sound.samples.tobytes())


def file_finder(config: TaskConfig, mirror: Path | None) -> Finder:
    """Finds the files that paths in documents mean.

    They are looked for beside the data, in a mirror or on the disk, then beside the task file and
    in the current folder. A document cannot name files outside of these: they would be sent to a model on a server.
    """
    roots = list(dict.fromkeys(_roots(config, mirror)))
    allowed = [root.resolve() for root in (*roots, *_media_folders())]

    def find(name: str) -> Path:
        try:
            for root in roots:
                if (root / name).is_file():
                    return _inside(root / name, allowed)
        except (OSError, ValueError):  # a text that no file name can be
            pass
        looked = ", ".join(display(root) for root in roots)
        raise DataError(f"no file {shorten(name)}", hint=f"check the path; looked in {looked}")

    return find


def _inside(path: Path, folders: Sequence[Path]) -> Path:
    """The path, which leads to a file in one of the folders, also if links are followed."""
    real = path.resolve()
    if not any(real.is_relative_to(folder) for folder in folders):
        message = f"the document names the file {shorten(str(real))}, which is outside of the folders of data and task"
        raise DataError(message, hint=f"put it beside the data, or name its folder in the variable {_MEDIA_PATH}")
    return path


def _media_folders() -> list[Path]:
    """Other folders that documents may name files in: the user's, and the caches of the hub."""
    named = [folder for folder in os.environ.get(_MEDIA_PATH, "").split(os.pathsep) if folder]
    cache = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    return [*map(Path, named), cache / "datasets", cache / "hub"]


def _roots(config: TaskConfig, mirror: Path | None) -> list[Path]:
    source = config.stated.source
    bases = [*([source.file.parent] if source else []), Path.cwd()]
    path, name = str(config.dataset_path or ""), config.dataset_name
    roots: list[Path] = []
    for folder in mirror_folders(mirror) if mirror is not None and path else ():
        roots += [folder / path / (name or "default"), folder / path]
    for base in bases:
        if path:
            target = base / path
            roots += [target / name] if name else []
            roots.append(target.parent if target.is_file() else target)
        roots += [(base / file).parent for file in _data_files(config)]
    return [root for root in [*roots, *bases] if root.is_dir()]


def _data_files(config: TaskConfig) -> list[str]:
    data_files = config.dataset_kwargs.get("data_files") or []
    values = list(data_files.values()) if isinstance(data_files, dict) else [data_files]
    flat = [file for value in values for file in (value if isinstance(value, list) else [value])]
    return [file for file in flat if isinstance(file, str)]
