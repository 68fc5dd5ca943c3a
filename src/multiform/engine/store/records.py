"""Requests and outputs as the store keeps them: the hash of a request, and its output as a line of JSON."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Output, Request


def request_key(request: Request) -> bytes:
    """The SHA-256 of everything in a request: its kind, texts, options, media, and which repeat it is.

    >>> request_key(LoglikelihoodRequest("ab", "c")) == request_key(LoglikelihoodRequest("a", "bc"))
    False
    """
    if isinstance(request, LoglikelihoodRequest):
        return _sha256(_kind("loglikelihood", request), request.context, request.continuation, *_media(request))
    if isinstance(request, GenerationRequest):
        options = json.dumps(request.options, default=repr)
        return _sha256(_kind("generation", request), request.context, options, str(request.sample), *_media(request))
    return _sha256("rolling", request.text)


def _kind(kind: str, request: LoglikelihoodRequest | GenerationRequest) -> str:
    """The kind of a request; a chat is another one than a text that looks like it."""
    return f"{kind} in a chat" if request.chat else kind


def _media(request: LoglikelihoodRequest | GenerationRequest) -> list[str]:
    return [f"{item.kind} {item.sha256}" for item in request.media]


def _sha256(*texts: str) -> bytes:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length before it, a text cannot run into the next one.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def checksum(*texts: str) -> bytes:
    """Eight bytes that tell a row of the store from a damaged one."""
    return _sha256(*texts)[:8]


def response_checksum(identity: str, request: bytes, line: str) -> bytes:
    """The checksum of a response: of its model, the hash of its request, and its output as a line."""
    return checksum(identity, request.hex(), line)


def is_intact(identity: str, request: bytes, line: str, stored: bytes | None) -> bool:
    """Whether a row is as it was written; rows of older files have no checksum."""
    return stored is None or stored == response_checksum(identity, request, line)


def output_line(output: Output) -> str:
    """An output as a line of JSON; numbers keep every bit. A truncated context and an unusual end add values to it.

    >>> output_line(LLOutput(-0.1, True, 3)), output_line(Completion(" yes", context_truncated=True))
    ('[-0.1, true, 3]', '[" yes", false, true]')
    >>> output_line(Completion("I", finish_reason="content_filter"))
    '["I", false, false, "content_filter"]'
    """
    cut = [True] if output.context_truncated else []
    if isinstance(output, LLOutput):
        return json.dumps([output.loglikelihood, output.is_greedy, output.tokens, *cut])
    if output.finish_reason is not None:
        return json.dumps([output.text, output.truncated, output.context_truncated, output.finish_reason])
    return json.dumps([output.text, output.truncated, *cut])


def read_output(line: str, request: Request) -> Output | None:
    """The output that `output_line` wrote, or None for anything else: a log-likelihood that is no number, too."""
    try:
        values = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    if isinstance(request, GenerationRequest):
        return Completion(*values) if _are(values, str, bool, more=(bool, str)) else None
    if not _are(values, float | int, bool, int | None, more=(bool,)) or not float(values[0]) < math.inf:
        return None
    return LLOutput(float(values[0]), *values[1:])


def _are(values: Any, *kinds: Any, more: tuple[type, ...]) -> bool:
    """Whether `values` is a list with these types, perhaps with the first ones of `more` at its end."""
    if not isinstance(values, list) or not len(kinds) <= len(values) <= len(kinds) + len(more):
        return False
    return all(isinstance(value, kind) for value, kind in zip(values, [*kinds, *more], strict=False))
