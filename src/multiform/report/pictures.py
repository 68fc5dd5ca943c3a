"""The images of samples, small enough for a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable

from multiform.errors import MultiformError
from multiform.forms import ScoredSample
from multiform.report.sample import media_of

#: The longest side of an image in pixels, and the most bytes of all images of a page.
_SIDE, _MOST = 640, 12_000_000


def pictures_of(samples: Iterable[ScoredSample]) -> dict[str, str]:
    """The images of samples as JPEG in base64, by their SHA-256; what does not fit into a page any more is left out.

    Results that were read from files have no pixels, and none of their images is here.
    """
    pictures: dict[str, str] = {}
    size = 0
    for sample in samples:
        for medium in media_of(sample):
            if medium.kind != "image" or not medium.payload or medium.sha256 in pictures or size > _MOST:
                continue
            try:
                image = medium.image().copy()
            except (MultiformError, OSError):  # the file is gone
                continue
            image.thumbnail((_SIDE, _SIDE))
            data = io.BytesIO()
            image.convert("RGB").save(data, "JPEG", quality=82)
            pictures[medium.sha256] = base64.b64encode(data.getvalue()).decode()
            size += len(pictures[medium.sha256])
    return pictures
