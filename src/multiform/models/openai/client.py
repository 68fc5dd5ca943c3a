"""The client of a model server: sends several requests at a time, each a bounded number of times."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import httpx

from multiform.errors import ModelError, shorten

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds before the second attempt, where the server does not name any; doubled with each further attempt.
FIRST_WAIT = 0.5
#: The longest wait between two attempts, whatever the server asks for.
LONGEST_WAIT = 60.0
_RETRY = (408, 409, 425, 429)
_HINTS = {
    401: "set $OPENAI_API_KEY, or give api_key",
    403: "check what the key may do",
    404: "check base_url and model",
}


class _RetryError(Exception):
    """A failed attempt that is worth retrying; `wait` is the number of seconds that the server asks for."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One endpoint of a server. The key is sent as a header and shown nowhere."""

    url: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 300.0
    max_retries: int = 3
    num_concurrent: int = 1

    def ask(
        self, items: Sequence[Item], payload: Callable[[Item], dict[str, Any]], read: Callable[[Item, Any], Result]
    ) -> Iterator[tuple[int, Result]]:
        """The result of `read` for the server's response to each item, in the order in which the responses come.

        The first failure ends the iteration; requests that have been sent are not waited for.
        """
        waiting: SimpleQueue[int] = SimpleQueue()
        done: SimpleQueue[tuple[int, Result | Exception]] = SimpleQueue()
        stop = threading.Event()
        for index in range(len(items)):
            waiting.put(index)

        def work(http: httpx.Client) -> None:
            with http:
                while not stop.is_set():
                    try:
                        index = waiting.get_nowait()
                    except Empty:
                        return
                    try:
                        done.put((index, read(items[index], self._answer(http, payload(items[index]), stop))))
                    except Exception as error:  # noqa: BLE001 - it is raised where the results are read
                        done.put((index, error))

        certificates = httpx.create_ssl_context()
        try:
            for _ in range(min(self.num_concurrent, len(items))):
                http = httpx.Client(headers=self._all_headers(), timeout=self.timeout, verify=certificates)
                # Daemons, so that interrupting a run does not wait for a slow server.
                threading.Thread(target=work, args=(http,), daemon=True).start()
            for _ in items:
                index, result = done.get()
                if isinstance(result, Exception):
                    raise result
                yield index, result
        finally:
            stop.set()

    def _answer(self, http: httpx.Client, payload: dict[str, Any], stop: threading.Event) -> Any:
        content = json.dumps(payload).encode()
        for attempt in range(1, self.max_retries + 2):
            try:
                return self._attempt(http, content)
            except _RetryError as failure:
                wait = FIRST_WAIT * 2 ** (attempt - 1) if failure.wait is None else failure.wait
                wait = min(wait, LONGEST_WAIT)
                last = attempt > self.max_retries
                if not last:
                    logger.info("%s: %s; trying again in %.1f s", self.url, failure, wait)
                if last or stop.wait(wait):
                    tries = f"{attempt} attempt{'s' if attempt > 1 else ''}"
                    hint = "check the server, or raise max_retries, or lower num_concurrent"
                    raise ModelError(f"{failure} after {tries}", where=self.url, hint=hint) from failure
        raise AssertionError("unreachable")

    def _attempt(self, http: httpx.Client, content: bytes) -> Any:
        deadline = time.monotonic() + self.timeout
        body = bytearray()
        try:
            with http.stream("POST", self.url, content=content) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > deadline:  # httpx only bounds the time between two chunks
                        raise httpx.ReadTimeout("the answer drips in")
        except httpx.TimeoutException as error:
            raise _RetryError(f"no answer within {self.timeout:g} s") from error
        except httpx.DecodingError as error:
            raise _RetryError(f"the answer cannot be decoded: {error}") from error
        except httpx.TransportError as error:
            raise _RetryError(f"no connection: {error or type(error).__name__}") from error
        if response.status_code >= 400:
            self._refused(response, bytes(body))
        try:
            return json.loads(body)
        except ValueError as error:
            raise _RetryError(f"the answer is not JSON: {shorten(self._clean(body), 120)}") from error

    def _refused(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        what = f"HTTP {status}: {self._clean(_message(body) or response.reason_phrase)}"
        if status >= 500 or status in _RETRY:
            raise _RetryError(what, retry_after(response.headers.get("retry-after")))
        raise ModelError(what, where=self.url, hint=_HINTS.get(status, "check the model's arguments and the prompt"))

    def _clean(self, text: str | bytes | bytearray) -> str:
        """A message of the server, without the key and not too long."""
        shown = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
        shown = shown.replace(self.key, "***") if self.key else shown
        return shown if len(shown) <= 500 else shown[:499] + "…"

    def _all_headers(self) -> dict[str, str]:
        defaults = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        return {**defaults, **self.headers}


def retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks for: a number, or a date.

    >>> retry_after("7"), retry_after(None), retry_after("soon")
    (7.0, None, None)
    >>> retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _message(body: bytes) -> str:
    """The message in the body of an error: the protocol's `error.message`, or what stands in its place."""
    try:
        content = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or json.dumps(error)
    return str(error)
