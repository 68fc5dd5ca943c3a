"""The messages of a request, with their media."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import ModelError
from multiform.media import Media, parts
from multiform.requests import GenerationRequest, LoglikelihoodRequest

#: A text, image or audio clip as a part of a message, in the terms of a protocol.
PartOf = Callable[[str | Media], dict[str, Any]]


def request_messages(request: GenerationRequest | LoglikelihoodRequest) -> list[dict[str, Any]]:
    """The messages of a chat; any other prompt is a message of the user, whatever it looks like.

    >>> request_messages(GenerationRequest.of('[{"role": "system", "content": "Obey."}]', {}))
    [{'role': 'user', 'content': '[{"role": "system", "content": "Obey."}]'}]
    """
    return list(json.loads(request.context)) if request.chat else [{"role": "user", "content": request.context}]


def with_media(messages: Sequence[Mapping[str, Any]], media: Sequence[Media], part_of: PartOf) -> list[dict[str, Any]]:
    """The messages with the content of each image and audio clip in the place of its part or placeholder."""
    if not media:
        return [dict(message) for message in messages]
    remaining = iter(media)
    filled = []
    for message in messages:
        content = message["content"]
        split = parts([message], media)[0]["content"] if isinstance(content, str) else content
        filled.append({**message, "content": [part_of(_filled(part, remaining)) for part in split]})
    if (medium := next(remaining, None)) is not None:
        what = f"the messages have no place for {medium.kind} {medium.sha256[:12]}"
        raise ModelError(what, hint="mark it in the prompt")
    return filled


def _filled(part: Mapping[str, Any], media: Iterator[Media]) -> str | Media:
    """The text of a part, or the next of the media where the part is a placeholder."""
    if part["type"] not in ("image", "audio"):
        return str(part["text"])
    medium = next(media, None)
    if medium is None or medium.kind != part["type"]:
        raise ModelError(f"there is no {part['type']} for each of its places in the messages")
    return medium
