"""Waveforms: audio as one channel of samples, decoded from and encoded to WAV files."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiform.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HINT = "give a WAV file of whole-number (PCM) samples, e.g. ffmpeg -i in.mp3 -c:a pcm_s16le out.wav"


@dataclass(frozen=True, slots=True, eq=False)
class Waveform:
    """Audio samples between -1 and 1 of one channel, and the number of them in a second."""

    samples: NDArray[np.float32]
    rate: int

    @property
    def size(self) -> str:
        return f"{len(self.samples) / self.rate:.2f} s at {self.rate} Hz"

    def resampled(self, rate: int) -> Waveform:
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
