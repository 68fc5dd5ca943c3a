"""Chat messages: as the one string that a request holds, and with their media."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import ModelError
from multiform.media import Media, parts

_KEY = "chat messages"
_HEAD = json.dumps({_KEY: []})[:-2]


def pack(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as a string from which `unpack` gets them back.

    >>> pack([{"role": "user", "content": "Hi"}])
    '{"chat messages": [{"role": "user", "content": "Hi"}]}'
    """
    return json.dumps({_KEY: [dict(message) for message in messages]}, ensure_ascii=False)


def unpack(context: str) -> list[dict[str, Any]]:
    """The messages of a packed string; any other text is a message of the user.

    >>> unpack(pack([{"role": "system", "content": "Be brief."}]))
    [{'role': 'system', 'content': 'Be brief.'}]
    >>> unpack("2 + 2?")
    [{'role': 'user', 'content': '2 + 2?'}]
    """
    if context.startswith(_HEAD):
        try:
            return list(json.loads(context)[_KEY])
        except ValueError:
            pass  # text that only begins like a chat
    return [{"role": "user", "content": context}]


def with_media(messages: Sequence[Mapping[str, Any]], media: Sequence[Media]) -> list[dict[str, Any]]:
    """The messages with the content of each image and audio clip in the place of its part or placeholder."""
    if not media:
        return [dict(message) for message in messages]
    remaining = iter(media)
    filled = []
    for message in messages:
        content = message["content"]
        split = parts([message], media)[0]["content"] if isinstance(content, str) else content
        filled.append({**message, "content": [_filled(part, remaining) for part in split]})
    if (medium := next(remaining, None)) is not None:
        what = f"the messages have no place for {medium.kind} {medium.sha256[:12]}"
        raise ModelError(what, hint="mark it in the prompt")
    return filled


def _filled(part: Mapping[str, Any], media: Iterator[Media]) -> dict[str, Any]:
    if part["type"] not in ("image", "audio"):
        return dict(part)
    medium = next(media, None)
    if medium is None or medium.kind != part["type"]:
        raise ModelError(f"there is no {part['type']} for each of its places in the messages")
    if medium.kind == "image":
        return {"type": "image_url", "image_url": {"url": medium.data_url()}}
    return {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(medium.encoded()[1]).decode(), "format": "wav"},
    }
