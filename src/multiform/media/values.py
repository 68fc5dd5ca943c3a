"""The media of a prompt, and the placeholders that stand for them in its text.

A prompt is text in which ``<image>`` or ``<audio>`` stands where an image or an audio clip belongs. The
`Media` themselves are beside the text, identified by a hash of their content, and stay encoded until
a model needs them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from multiform.errors import DataError
from multiform.media.audio import Waveform, decode_wav, encode_wav

if TYPE_CHECKING:
    from PIL.Image import Image

Kind: TypeAlias = Literal["image", "audio"]

#: The placeholders of images and audio in a prompt, the same as in lm-eval.
MARKS: dict[Kind, str] = {"image": "<image>", "audio": "<audio>"}

#: The number of decoded images that are cached, for the requests of one document and its repeats.
_CACHED_IMAGES = 16


@dataclass(frozen=True, slots=True)
class Media:
    """An image or an audio clip; two are equal when their content is.

    `size` is its size in words, and `origin` where it comes from. The payload is encoded (bytes, or the
    path of a file) or already decoded (an image of Pillow, a `Waveform`).
    """

    kind: Kind
    sha256: str
    size: str = field(default="", compare=False)
    payload: Any = field(default=b"", compare=False, repr=False)
    origin: str = field(default="", compare=False, repr=False)

    def summary(self) -> dict[str, str]:
        """What output files contain in its place.

        >>> Media("image", "9f86d0", "640x480").summary()
        {'kind': 'image', 'size': '640x480', 'sha256': '9f86d0'}
        """
        return {"kind": self.kind, "size": self.size, "sha256": self.sha256}

    def image(self) -> Image:
        """The decoded image; do not change it, as it is cached."""
        return _decoded(self)

    def waveform(self) -> Waveform:
        """The decoded audio."""
        return self.payload if isinstance(self.payload, Waveform) else decode_wav(self._bytes())

    def encoded(self) -> tuple[str, bytes]:
        """The media type and content of a file that holds it."""
        if self.kind == "audio":
            return "audio/wav", encode_wav(self.payload) if isinstance(self.payload, Waveform) else self._bytes()
        return encode_image(self.payload) if _is_image(self.payload) else _image_file(self._bytes())

    def data_url(self) -> str:
        """The file's content as a data URL."""
        kind, data = self.encoded()
        return f"data:{kind};base64,{base64.b64encode(data).decode()}"

    def _bytes(self) -> bytes:
        if isinstance(self.payload, Path):
            return self.payload.read_bytes()
        assert isinstance(self.payload, bytes)
        return self.payload


class MediaText(str):
    """A text with its media, in the order of their placeholders."""

    __slots__ = ("media",)
    media: tuple[Media, ...]

    def __new__(cls, text: str, media: Iterable[Media] = ()) -> MediaText:
        instance = super().__new__(cls, text)
        instance.media = tuple(media)
        return instance


def media_of(text: str) -> tuple[Media, ...]:
    """The media of a text; empty for plain text."""
    return text.media if isinstance(text, MediaText) else ()


def parts(messages: Sequence[Mapping[str, Any]], media: Sequence[Media]) -> list[dict[str, Any]]:
    """Messages whose contents are lists of text, image and audio parts, as multimodal chat templates want them.

    Without media, the contents stay texts.

    >>> two = [Media("image", "01"), Media("image", "02")]
    >>> parts([{"role": "user", "content": "Compare <image> with <image>."}], two)[0]["content"][:2]
    [{'type': 'text', 'text': 'Compare '}, {'type': 'image'}]
    """
    marks = {MARKS[medium.kind]: medium.kind for medium in media}
    if not marks:
        return [dict(message) for message in messages]
    return [{**message, "content": _parts(message["content"], marks)} for message in messages]


def _parts(content: str, marks: Mapping[str, Kind]) -> list[dict[str, str]]:
    segments = re.split(f"({'|'.join(map(re.escape, marks))})", content)
    split: list[dict[str, str]] = [
        {"type": marks[segment]} if segment in marks else {"type": "text", "text": segment}
        for segment in segments
        if segment
    ]
    return split or [{"type": "text", "text": ""}]


def named(value: Any) -> Any:
    """A stand-in for a value that JSON cannot hold: kind, size and hash of binary data, text of anything else.

    >>> named(b"abc")
    {'kind': 'bytes', 'size': '3', 'sha256': 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'}
    """
    if isinstance(value, Media):
        return value.summary()
    if isinstance(value, str) and value.startswith("data:"):
        kind = value[5:].partition("/")[0]
        return {"kind": kind, "size": f"{len(value)} characters", "sha256": sha256(value.encode())}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"kind": "bytes", "size": str(len(value)), "sha256": sha256(bytes(value))}
    if _is_image(value):
        return {"kind": "image", "size": f"{value.width}x{value.height}", "sha256": pixel_hash(value)}
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        shape = "x".join(map(str, value.shape))
        return {"kind": "array", "size": shape, "sha256": sha256(value.tobytes())} if shape else value.item()
    return str(value)


def sha256(*chunks: bytes) -> str:
    """The hash of the parts, one after the other."""
    digest = hashlib.sha256()
    for part in chunks:
        digest.update(part)
    return digest.hexdigest()


def pixel_hash(image: Image) -> str:
    """A hash of an image's pixels."""
    if image.mode == "P":  # its pixels are indices into a palette
        image = image.convert("RGBA")
    return sha256(f"{image.mode} {image.size} ".encode(), image.tobytes())


def encode_image(image: Image) -> tuple[str, bytes]:
    """An image of Pillow as a PNG file."""
    file = io.BytesIO()
    (image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else image.convert("RGB")).save(file, "PNG")
    return "image/png", file.getvalue()


def _is_image(value: Any) -> bool:
    return hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "convert")


def _image_file(data: bytes) -> tuple[str, bytes]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return Image.MIME.get(image.format or "", "image/png"), data


@lru_cache(maxsize=_CACHED_IMAGES)
def _decoded(media: Media) -> Image:
    from PIL import Image, ImageOps

    if _is_image(media.payload):
        return media.payload  # type: ignore[no-any-return]
    try:
        image: Image.Image = Image.open(io.BytesIO(media._bytes()))
        image.load()
    except (OSError, SyntaxError, ValueError) as error:
        message = f"the image is damaged: {error}"
        raise DataError(
            message, where=media.origin or None, hint="replace the file, or leave the document out"
        ) from error
    # Cameras store the orientation beside the pixels; `datasets` rotates images in the same way.
    return ImageOps.exif_transpose(image)
