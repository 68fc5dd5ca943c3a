"""HTTPClient: an HTTP client with a limit on the total time of a request and on the decoded size of a response.

httpx limits the time between two chunks of a response, not the total: a server that sends a byte of a header now and
then, or one interim response after the other, would keep a request open for ever.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import httpx

#: The accepted encodings of a response; `zlib` detects which of them it is.
ENCODINGS = "gzip, deflate"
_KNOWN = frozenset(("gzip", "x-gzip", "deflate"))
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
#: Events of a connection that give its stream.
_OPENED = frozenset(("connection.connect_tcp.complete", "connection.start_tls.complete"))


class HTTPClient(httpx.Client):
    """The connection of one thread."""

    _socket: socket.socket | None = None

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        request = super().build_request(*args, **kwargs)
        request.extensions["trace"] = self._watch
        return request

    @contextlib.contextmanager
    def ending_after(self, seconds: float) -> Iterator[None]:
        """A block in which the connection is shut down after `seconds`, whatever it waits for."""
        timer = threading.Timer(seconds, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _watch(self, event: str, info: dict[str, Any]) -> None:
        if event in _OPENED:
            self._socket = info["return_value"].get_extra_info("socket")

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                # Not the method of an encrypted socket, which also forgets its state while another thread reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class UnreadableError(Exception):
    """A response that is too long, or has an unknown encoding."""


def decoded(response: httpx.Response, size: int) -> Iterator[bytes]:
    """The decoded chunks of a body; an UnreadableError once they are longer than `size` bytes.

    Decoded here because httpx would expand a decompression bomb before its size can be checked.
    """
    encodings = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    encodings = [name for name in encodings if name not in ("", "identity")]
    if len(encodings) > 1 or not _KNOWN.issuperset(encodings):
        raise UnreadableError(f"the response is encoded as '{', '.join(encodings)[:100]}', which was not requested")
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB) if encodings else None
    remaining = size
    for chunk in response.iter_raw():
        try:
            data = chunk if decoder is None else decoder.decompress(chunk, max(1, remaining + 1))
        except zlib.error as error:
            raise UnreadableError(f"the response cannot be decoded: {error}") from error
        remaining -= len(data)
        if remaining < 0:
            raise UnreadableError(f"the response is longer than {size} bytes")
        yield data
