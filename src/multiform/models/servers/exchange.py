"""One exchange with a server: an HTTP request and its JSON response, or the reason why there is none; and JobSchedule,
which says what request a worker thread sends next, and how many may be in flight.

httpx limits the time between two chunks of a response, not the total: a server that sends a byte of a header now and
then, or one interim response after the other, would keep a request open for ever. HTTPClient limits both the total
time and the size of a response, which is requested uncompressed: a small one could be blown up without end.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

import httpx

#: Events of a connection that give its stream.
_OPENED = frozenset(("connection.connect_tcp.complete", "connection.start_tls.complete"))
#: The maximum size of a response: the log-probabilities of a prompt of 100,000 tokens are some 10 MB.
MAX_RESPONSE_BYTES = 64 * 2**20
#: Statuses of a server that is overloaded or being restarted, whatever the request.
_BUSY = frozenset({429, 502, 503, 504, 529, *range(520, 525)})
#: Other statuses that may be temporary, and those of 500 and more that are not.
_PASSING = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505, 510, 511})
_UNSUPPORTED = re.compile(r"\bnot supported|\bunsupported|\bonly .{1,40} supported", re.IGNORECASE)
#: The factor for the number of concurrent requests when the server is overloaded, and what each response adds to it.
_FEWER = 0.7
_MORE = 0.25


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


class FailedAttemptError(Exception):
    """An attempt that failed and is worth retrying.

    `busy` says that the server takes no requests for now; otherwise the request itself may be at fault.
    `wait` is the number of seconds that the server asks for.
    """

    def __init__(self, what: str, *, busy: bool = False, overloaded: bool = False, wait: float | None = None) -> None:
        super().__init__(what)
        self.busy = busy
        #: Whether fewer concurrent requests would help.
        self.overloaded = overloaded
        self.wait = wait


class NoConnectionError(FailedAttemptError):
    """There is no server at the address, for now."""


class RefusedError(Exception):
    """An attempt that would fail again: the server refuses the request."""

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.status = status


def mapping_in(value: Any, key: str) -> Mapping[str, Any]:
    """The mapping that a part of a response has under a key; empty where it has none.

    >>> mapping_in({"usage": {"tokens": 3}}, "usage"), mapping_in({"usage": None}, "usage"), mapping_in("text", "usage")
    ({'tokens': 3}, {}, {})
    """
    part = value.get(key) if isinstance(value, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def mappings_in(value: Any, key: str) -> list[Mapping[str, Any]]:
    """The mappings in the list that a part of a response has under a key; none where it has no list."""
    listed = value.get(key) if isinstance(value, Mapping) else None
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def exchange(http: HTTPClient, method: str, url: httpx.URL, content: bytes | None, *, seconds: float, size: int) -> Any:
    """The parsed JSON of the server's response; a FailedAttemptError or RefusedError where there is none."""
    body, headers = fetch(http, method, url, content, seconds=seconds, size=size)
    parsed, is_json = _parse_body(body)
    if not is_json:
        raise FailedAttemptError(f"the response is not JSON: {parsed or 'it is empty'}")
    if isinstance(parsed, Mapping) and parsed.get("error"):
        code = mapping_in(parsed, "error").get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 200
        raise response_failure(status, parsed, headers)
    return parsed


def fetch(
    http: HTTPClient,
    method: str,
    url: httpx.URL,
    content: bytes | None,
    *,
    headers: Mapping[str, str] | None = None,
    seconds: float,
    size: int,
) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers of the server's response; a FailedAttemptError or RefusedError where there is none.

    The exchange takes at most that many seconds, and the response has at most that many bytes.
    """
    deadline = time.monotonic() + seconds
    late = f"no response within {seconds:g} s"
    body = bytearray()
    try:
        with http.ending_after(seconds), http.stream(method, url, content=content, headers=headers) as response:
            encoding = response.headers.get("content-encoding", "identity")
            if encoding.lower() != "identity":
                raise FailedAttemptError(f"the response is encoded as '{encoding[:100]}', which was not requested")
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > size:
                    raise FailedAttemptError(f"the response is longer than {size} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the response arrives too slowly")
    except httpx.TimeoutException as error:
        raise FailedAttemptError(late, overloaded=True) from error
    except httpx.ConnectError as error:
        raise NoConnectionError(f"no connection: {error or 'refused'}", busy=True) from error
    except httpx.TransportError as error:
        if time.monotonic() >= deadline:  # we have broken it ourselves
            raise FailedAttemptError(late, overloaded=True) from error
        raise FailedAttemptError(f"the connection broke: {error or type(error).__name__}") from error
    if response.status_code >= 300:
        parsed, _ = _parse_body(bytes(body))
        raise response_failure(response.status_code, parsed, response.headers, response.reason_phrase)
    return bytes(body), response.headers


def _parse_body(body: bytes) -> tuple[Any, bool]:
    """The content of a body and whether it is JSON; text otherwise."""
    try:
        return json.loads(body), True
    except (ValueError, RecursionError):
        # More than a message shows: secrets are redacted before it is shortened.
        return " ".join(body[:20_000].decode("utf-8", "replace").split()), False


def response_failure(
    status: int, body: Any, headers: Mapping[str, str] = MappingProxyType({}), otherwise: str = ""
) -> FailedAttemptError | RefusedError:
    """The error for a status and the message that came with it."""
    message = f"HTTP {status}: {_message(body) or otherwise}" if status != 200 else f"an error: {_message(body)}"
    if 300 <= status < 400:
        to = f" to {headers['location']}" if "location" in headers else ""
        return RefusedError(f"HTTP {status}: the server redirects{to}", status)
    if status in _BUSY:
        wait = retry_after(headers.get("retry-after"))
        wait = _google_delay(body) if wait is None else wait
        return FailedAttemptError(message, busy=True, overloaded=status in (429, 503, 529), wait=wait)
    if status >= 500 and _UNSUPPORTED.search(message):  # as llama.cpp refuses an option: no retry changes it
        return RefusedError(message, status)
    if status < 300 or status in _PASSING or (status >= 500 and status not in _LASTING):
        return FailedAttemptError(message, wait=retry_after(headers.get("retry-after")))
    return RefusedError(message, status)


def _message(body: Any) -> str:
    """The message of an error on one line: the protocol's `error.message`, or the next best field."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or json.dumps(error, default=str)
    return " ".join(str(error).split())


def _google_delay(body: Any) -> float | None:
    """The delay that Google's servers write into the body: ``{"retryDelay": "34s"}`` among the error's details."""
    delays = [detail.get("retryDelay") for detail in mappings_in(mapping_in(body, "error"), "details")]
    return next((retry_after(delay.removesuffix("s")) for delay in delays if isinstance(delay, str)), None)


def retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks for: a number, or a date.

    >>> retry_after("7"), retry_after(None), retry_after("soon"), retry_after("nan")
    (7.0, None, None, None)
    >>> retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError):  # a date without a time zone, or beyond all calendars
            return None
    return None if seconds != seconds else max(0.0, seconds)


@dataclass(order=True, slots=True)
class Job:
    """A request that waits to be sent, or is in flight; `index` is its position among all requests."""

    ready: float
    index: int
    #: How often it was sent, and when for the first and the last time.
    attempts: int = field(default=0, compare=False)
    first_sent: float = field(default=0.0, compare=False)
    sent: float = field(default=0.0, compare=False)


class JobSchedule:
    """Hands out requests to worker threads; those that failed are handed out again after a wait.

    At most `most` are in flight: fewer each time that the server is overloaded, and more again with each response, as
    TCP's congestion control does.
    """

    def __init__(self, count: int, most: int) -> None:
        self.limit = float(most)
        self.last_response = 0.0
        self._most = most
        self._waiting = [Job(0.0, index) for index in range(count)]  # equal times in order make a heap
        self._in_flight = 0
        self._paused_until = 0.0
        self._lowered = 0.0
        self._stopped = False
        self._changed = threading.Condition()

    def take(self) -> Job | None:
        """The next request, as soon as it may be sent; None when there are no more."""
        with self._changed:
            while not self._stopped and (self._waiting or self._in_flight):
                now = time.monotonic()
                # While all others wait for their retries or are in flight, one of them may come back.
                begins = max(self._waiting[0].ready, self._paused_until) if self._waiting else None
                if begins is not None and begins <= now and self._in_flight < max(1, int(self.limit)):
                    job = heapq.heappop(self._waiting)
                    job.sent = now
                    job.first_sent = job.first_sent or now
                    job.attempts += 1
                    self._in_flight += 1
                    return job
                self._changed.wait(None if begins is None or begins <= now else begins - now)
            return None

    def complete(self, job: Job, *, slow: bool = False) -> None:
        """The request has its response; `slow` says that it took so long that fewer should be in flight."""
        with self._changed:
            self.last_response = time.monotonic()
            self._leave()
            if slow:
                self._send_fewer(job)
            else:
                self.limit = min(float(self._most), self.limit + _MORE)

    def retry(self, job: Job, wait: float, failed: FailedAttemptError) -> None:
        """Send the request again after a wait; where a busy server asked for it, no other one is sent before either."""
        with self._changed:
            self._leave()
            if failed.overloaded:
                self._send_fewer(job)
            job.ready = time.monotonic() + wait
            if failed.busy and failed.wait is not None:
                self._paused_until = max(self._paused_until, job.ready)
            heapq.heappush(self._waiting, job)

    def drop(self) -> None:
        """The request has failed for good."""
        with self._changed:
            self._leave()

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._changed.notify_all()

    def _send_fewer(self, job: Job) -> None:
        """Lower the number of concurrent requests, once for all that were sent before it was last lowered."""
        if job.sent >= self._lowered:
            self.limit = max(1.0, self.limit * _FEWER)
            self._lowered = time.monotonic()
