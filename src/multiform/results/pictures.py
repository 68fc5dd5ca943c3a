"""The images of samples beside the files of a run, small enough for a page: ``media/<sha256>.jpg``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from multiform.errors import MultiformError
from multiform.forms import ScoredSample
from multiform.paths import replace_output
from multiform.prompts.media import Media
from multiform.requests import RollingRequest

#: The longest side of an image in pixels, and the most bytes of the images of a run.
_SIDE, _MOST_BYTES = 640, 100_000_000


def media_of(sample: ScoredSample) -> tuple[Media, ...]:
    """The images and audio clips of a sample's prompt."""
    request = sample.instances[0].request if sample.instances else None
    return () if request is None or isinstance(request, RollingRequest) else request.media


def images_of(samples: Iterable[ScoredSample]) -> Iterator[Media]:
    """The images of samples whose content is known, each once."""
    seen: set[str] = set()
    for medium in (medium for sample in samples for medium in media_of(sample)):
        if medium.kind == "image" and medium.payload and medium.sha256 not in seen:
            seen.add(medium.sha256)
            yield medium


def small_jpeg(image: Media) -> bytes | None:
    """An image as a small JPEG; None where its file is gone or damaged."""
    try:
        picture = image.image().copy()
    except (MultiformError, OSError):
        return None
    picture.thumbnail((_SIDE, _SIDE))
    data = io.BytesIO()
    picture.convert("RGB").save(data, "JPEG", quality=82)
    return data.getvalue()


def picture_file(folder: Path, sha256: str) -> Path:
    """The file of an image of the runs in a folder."""
    return folder / "media" / f"{sha256}.jpg"


def write_pictures(samples: Iterable[ScoredSample], folder: Path) -> None:
    """Write the images of samples beside the files of their run, each once, as many as fit into 100 MB."""
    size = 0
    for image in images_of(samples):
        file = picture_file(folder, image.sha256)
        data = None if file.is_file() or size > _MOST_BYTES else small_jpeg(image)
        if data is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replace_output(file) as partial:
                partial.write_bytes(data)
            size += len(data)
