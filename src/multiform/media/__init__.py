"""Images and audio that go with a prompt.

values   the media of a prompt, and the placeholders that stand for them in its text
audio    waveforms, decoded from and encoded to WAV files
"""

from multiform.media.values import (
    MARKS,
    Kind,
    Media,
    MediaText,
    encode_image,
    media_of,
    named,
    parts,
    pixel_hash,
    sha256,
)

__all__ = ["MARKS", "Kind", "Media", "MediaText", "encode_image", "media_of", "named", "parts", "pixel_hash", "sha256"]
