"""A chat as one string, which is what a request holds, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_KEY = "chat messages"
_HEAD = json.dumps({_KEY: []})[:-2]


def pack(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as a string that `unpack` knows.

    >>> pack([{"role": "user", "content": "Hi"}])
    '{"chat messages": [{"role": "user", "content": "Hi"}]}'
    """
    return json.dumps({_KEY: [dict(message) for message in messages]}, ensure_ascii=False)


def unpack(context: str) -> list[dict[str, Any]]:
    """The messages of a packed string; any other text is what the user says.

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
