"""Responses of a hostile server: whatever it sends, one attempt ends in time and within its limits."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from multiform.models.servers.exchange import FailedAttemptError, HTTPClient, exchange, retry_after

SECONDS = 0.5
SIZE = 1_000_000


@contextmanager
def raw_server(reply: Callable[[socket.socket], None]) -> Iterator[httpx.URL]:
    """A server that reads a request and then does what `reply` does with the connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(100_000)
            reply(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield httpx.URL(f"http://127.0.0.1:{listening.getsockname()[1]}/")
    finally:
        listening.close()


def ask(reply: Callable[[socket.socket], None]) -> object:
    with raw_server(reply) as url, HTTPClient(timeout=SECONDS) as http:
        return exchange(http, "POST", url, b"{}", seconds=SECONDS, size=SIZE)


def sent(body: bytes, *headers: str) -> Callable[[socket.socket], None]:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
    return lambda connection: connection.sendall("\r\n".join(lines).encode() + body)


def drip(first: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    """Send a piece again and again, each well before a timeout between two of them."""

    def reply(connection: socket.socket) -> None:
        connection.sendall(first)
        for _ in range(200):
            connection.sendall(piece)
            time.sleep(0.1)

    return reply


@pytest.mark.long
@pytest.mark.parametrize(
    "reply",
    [
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        drip(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "header", "headers", "interim responses"],
)
def test_a_response_that_arrives_too_slowly_ends_with_the_timeout(reply):
    began = time.monotonic()
    with pytest.raises(FailedAttemptError, match=r"no response within 0\.5 s") as failed:
        ask(reply)
    assert time.monotonic() - began < 10 * SECONDS
    assert failed.value.overloaded


@pytest.mark.parametrize("name", ["gzip", "gzip, gzip", "deflate", "br", "zstd", "x" * 1000])
def test_a_compressed_response_is_a_failed_attempt_and_is_not_blown_up(name):
    packed = gzip.compress(bytes(50 * SIZE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FailedAttemptError, match=r"encoded as '.*', which was not requested"):
        ask(sent(packed, f"Content-Encoding: {name}"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_a_response_that_is_said_not_to_be_encoded_is_read():
    assert ask(sent(b'{"a": 1}', "Content-Encoding: identity")) == {"a": 1}


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2015 07:28:00 +99999999999999", "inf", "-1", "1e400", "x" * 10_000])
def test_no_wait_that_a_server_asks_for_is_an_error(value):
    seconds = retry_after(value)
    assert seconds is None or seconds >= 0


def test_an_option_that_a_server_does_not_support_is_refused_at_once() -> None:
    """llama.cpp answers such a request with the status of a failure, and would do so again."""
    from multiform.models.servers import exchange

    body = {"error": {"code": 500, "message": "Only no echo is supported", "type": "server_error"}}
    assert isinstance(exchange.response_failure(500, body, {}, ""), exchange.RefusedError)
    passing = {"error": {"code": 500, "message": "out of memory, try again", "type": "server_error"}}
    assert isinstance(exchange.response_failure(500, passing, {}, ""), exchange.FailedAttemptError)
