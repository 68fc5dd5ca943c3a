"""Images and sounds in the messages that a chat server gets."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import ModelError
from multiform.media import Media, parts


def with_media(messages: Sequence[Mapping[str, Any]], media: Sequence[Media]) -> list[dict[str, Any]]:
    """The messages with the content of each image and sound in the place of its part or mark."""
    if not media:
        return [dict(message) for message in messages]
    left = iter(media)
    made = []
    for message in messages:
        content = message["content"]
        split = parts([message], media)[0]["content"] if isinstance(content, str) else content
        made.append({**message, "content": [_filled(part, left) for part in split]})
    if (one := next(left, None)) is not None:
        raise ModelError(f"the messages have no place for {one.kind} {one.sha256[:12]}", hint="mark it in the prompt")
    return made


def _filled(part: Mapping[str, Any], media: Iterator[Media]) -> dict[str, Any]:
    if part["type"] not in ("image", "audio"):
        return dict(part)
    one = next(media, None)
    if one is None or one.kind != part["type"]:
        raise ModelError(f"there is no {part['type']} for each of its places in the messages")
    if one.kind == "image":
        return {"type": "image_url", "image_url": {"url": one.data_url()}}
    return {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(one.encoded()[1]).decode(), "format": "wav"},
    }
