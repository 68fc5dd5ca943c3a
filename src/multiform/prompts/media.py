"""The media of a prompt, and the placeholders that stand for them in its text.

A prompt is text in which ``<image>`` or ``<audio>`` stands where an image or an audio clip belongs. The
`Media` themselves are beside the text, identified by a hash of their content, and stay encoded until
a model needs them.
"""

from __future__ import annotations

import base64
import io
import re
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from multiform.errors import DataError
from multiform.hashing import sha256

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image


_HINT = "give a WAV file of whole-number (PCM) samples, e.g. ffmpeg -i in.mp3 -c:a pcm_s16le out.wav"


@dataclass(frozen=True, slots=True, eq=False)
class Waveform:
    """Audio samples between -1 and 1 of one channel, and the number of them in a second."""

    samples: NDArray[np.float32]
    rate: int

    @property
    def size(self) -> str:
        return f"{len(self.samples) / self.rate:.2f} s at {self.rate} Hz"

    def resample(self, rate: int) -> Waveform:
        """The same audio with another sampling rate."""
        if rate == self.rate:
            return self
        import numpy as np
        from scipy.signal import resample_poly

        common = int(np.gcd(rate, self.rate))
        samples = resample_poly(self.samples, rate // common, self.rate // common)
        return Waveform(samples.astype(np.float32), rate)


def waveform_from_array(array: Any, rate: Any) -> Waveform:
    """The waveform of an array of samples; the channels of a two-dimensional one are averaged.

    >>> waveform_from_array([[0.0, 0.5], [0.0, 0.1]], 8000).samples.tolist()
    [0.0, 0.30000001192092896]
    """
    import numpy as np

    try:
        samples = np.asarray(array)
        numbers = samples.astype(np.float32)
        per_second = int(rate)
    except (TypeError, ValueError) as error:
        raise DataError(f"not an array of samples: {error}", hint="give numbers between -1 and 1") from error
    if np.issubdtype(samples.dtype, np.integer) and samples.dtype.itemsize < 8:
        numbers = numbers / float(np.iinfo(samples.dtype).max + 1)
    elif np.issubdtype(samples.dtype, np.integer) and samples.size and abs(samples).max() > 1:
        raise DataError("the samples are whole numbers of unknown width", hint="give numbers between -1 and 1")
    if numbers.ndim == 2:
        numbers = numbers.mean(axis=int(numbers.shape[1] < numbers.shape[0]))
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        message = f"expected one row of finite samples, got an array of shape {samples.shape}"
        raise DataError(message, hint="give numbers between -1 and 1")
    if per_second <= 0:
        raise DataError(f"the sampling rate is {rate}", hint="give the number of samples per second")
    return Waveform(np.ascontiguousarray(numbers, dtype=np.float32), per_second)


def decode_wav(data: bytes) -> Waveform:
    """The waveform in the content of a WAV file."""
    import numpy as np

    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise DataError(f"not a WAV file that can be read: {error or 'it ends too early'}", hint=_HINT) from error
    raw = raw[: len(raw) // (width * channels) * (width * channels)]
    if not raw or not rate:
        raise DataError("the WAV file has no samples", hint=_HINT)
    if width == 1:  # the only width without a sign
        numbers = (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    else:
        # The highest bytes of a 32-bit number, so that 24 bits need no case of their own.
        padded = np.zeros((len(raw) // width, 4), np.uint8)
        padded[:, 4 - width :] = np.frombuffer(raw, np.uint8).reshape(-1, width)
        numbers = padded.view("<i4")[:, 0].astype(np.float64) / 2**31
    return Waveform(numbers.reshape(-1, channels).mean(axis=1).astype(np.float32), rate)


def encode_wav(waveform: Waveform) -> bytes:
    """The content of a WAV file with 16-bit samples."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(waveform.rate)
        out.writeframes((waveform.samples.clip(-1, 1) * 32767).round().astype("<i2").tobytes())
    return file.getvalue()


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
        return _decode_image(self)

    def waveform(self) -> Waveform:
        """The decoded audio."""
        return self.payload if isinstance(self.payload, Waveform) else decode_wav(self._bytes())

    def encode(self) -> tuple[str, bytes]:
        """The media type and content of a file that holds it."""
        if self.kind == "audio":
            return "audio/wav", encode_wav(self.payload) if isinstance(self.payload, Waveform) else self._bytes()
        from PIL import Image

        if not is_image(self.payload):
            with Image.open(io.BytesIO(self._bytes())) as image:
                return Image.MIME.get(image.format or "", "image/png"), self._bytes()
        file, modes = io.BytesIO(), ("1", "L", "LA", "P", "RGB", "RGBA")
        (self.payload if self.payload.mode in modes else self.payload.convert("RGB")).save(file, "PNG")
        return "image/png", file.getvalue()

    def data_url(self) -> str:
        """The file's content as a data URL."""
        media_type, data = self.encode()
        return f"data:{media_type};base64,{base64.b64encode(data).decode()}"

    def _bytes(self) -> bytes:
        if isinstance(self.payload, Path):
            return self.payload.read_bytes()
        assert isinstance(self.payload, bytes)
        return self.payload


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


def _parts(content: str, marks: Mapping[str, Kind]) -> list[dict[str, Any]]:
    segments = filter(None, re.split(f"({'|'.join(map(re.escape, marks))})", content))
    split = [{"type": marks[each]} if each in marks else {"type": "text", "text": each} for each in segments]
    return [*split] or [{"type": "text", "text": ""}]


def binary_summary(value: Any) -> Any:
    """A stand-in for a value that JSON cannot hold: kind, size and hash of binary data, text of anything else.

    >>> binary_summary(b"abc")
    {'kind': 'bytes', 'size': '3', 'sha256': 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'}
    """
    if isinstance(value, Media):
        return value.summary()
    if isinstance(value, str) and value.startswith("data:"):
        kind = value[5:].partition("/")[0]
        return {"kind": kind, "size": f"{len(value)} characters", "sha256": sha256(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"kind": "bytes", "size": str(len(value)), "sha256": sha256(bytes(value))}
    if is_image(value):
        return {"kind": "image", "size": f"{value.width}x{value.height}", "sha256": pixel_hash(value)}
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        shape = "x".join(map(str, value.shape))
        return {"kind": "array", "size": shape, "sha256": sha256(value.tobytes())} if shape else value.item()
    return str(value)


def pixel_hash(image: Image) -> str:
    """A hash of an image's pixels."""
    if image.mode == "P":  # its pixels are indices into a palette
        image = image.convert("RGBA")
    return sha256(f"{image.mode} {image.size} ", image.tobytes())


def is_image(value: Any) -> bool:
    """Whether a value is an image of Pillow."""
    return hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "convert")


@lru_cache(maxsize=_CACHED_IMAGES)
def _decode_image(media: Media) -> Image:
    from PIL import Image, ImageOps

    if is_image(media.payload):
        return media.payload  # type: ignore[no-any-return]
    try:
        image: Image.Image = Image.open(io.BytesIO(media._bytes()))
        image.load()
    except (OSError, SyntaxError, ValueError) as error:
        hint = "replace the file, or leave the document out"
        raise DataError(f"the image is damaged: {error}", where=media.origin or None, hint=hint) from error
    # Cameras store the orientation beside the pixels; `datasets` rotates images in the same way.
    return ImageOps.exif_transpose(image)
