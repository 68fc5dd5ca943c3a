"""What is beside the samples files of a run, for a page: small images, and the tokens and time of completions.

``media/<sha256>.jpg`` has the images of prompts, and ``costs_<date>.jsonl`` what is not the same when responses are
cached: how many tokens each completion has and how many seconds it took, by form and document. A run that is under way
writes both as its documents are scored.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from multiform.errors import MultiformError
from multiform.forms import ScoredSample
from multiform.paths import open_file, replace_output
from multiform.prompts.media import Media
from multiform.requests import Completion, RollingRequest

#: The longest side of an image in pixels, and the most bytes of the images of a run.
_SIDE, _MOST_BYTES = 640, 100_000_000
#: The tokens and the seconds of a completion, as far as they are known.
Cost: TypeAlias = tuple[int | None, float | None]


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


def costs_file(folder: Path, stamp: str) -> Path:
    """The file with the tokens and time of the completions of a run."""
    return folder / f"costs_{stamp}.jsonl"


class Sidecars:
    """Writes what is beside the samples files of a run as its samples pass by."""

    def __init__(self, folder: Path, stamp: str) -> None:
        self._folder = folder
        self._costs_file = costs_file(folder, stamp)
        #: The costs by form and document that are not written yet.
        self._costs: dict[str, dict[str, list[Cost]]] = {}
        self._seen: set[str] = set()
        self._size = 0

    def add(self, form: str, sample: ScoredSample) -> None:
        """Write the images of a sample, each once and as many as fit into 100 MB, and note its costs."""
        for image in images_of([sample]):
            file = picture_file(self._folder, image.sha256)
            if image.sha256 in self._seen or file.is_file() or self._size > _MOST_BYTES:
                continue
            self._seen.add(image.sha256)
            if (data := small_jpeg(image)) is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                with replace_output(file) as partial:
                    partial.write_bytes(data)
                self._size += len(data)
        costs = [(output.tokens, output.seconds) for output in sample.outputs if isinstance(output, Completion)]
        if any(cost != (None, None) for cost in costs):
            self._costs.setdefault(form, {})[str(sample.doc_id)] = costs

    def write_costs(self) -> None:
        """Append the costs that are not written yet, a line for each form."""
        if self._costs:
            with self._costs_file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"form": form, "costs": c}) + "\n" for form, c in self._costs.items())
            self._costs = {}


def read_costs(folder: Path, stamp: str, form: str) -> dict[str, Any]:
    """The costs of a form's documents; empty where the file is missing or damaged."""
    costs: dict[str, Any] = {}
    damages = (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
    with suppress(*damages), open_file(costs_file(folder, stamp)) as lines:
        for entry in map(json.loads, lines):
            costs |= entry["costs"] if entry["form"] == form else {}
    return costs


def with_costs(sample: ScoredSample, costs: Sequence[Any]) -> ScoredSample:
    """A sample whose completions have their tokens and time."""
    known = iter(costs)
    outputs = tuple(
        replace(output, tokens=cost[0], seconds=cost[1])
        if isinstance(output, Completion) and (cost := next(known, None))
        else output
        for output in sample.outputs
    )
    return replace(sample, outputs=outputs)
