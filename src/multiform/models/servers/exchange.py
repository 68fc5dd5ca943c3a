"""One exchange with a server: a request is sent, and its answer is JSON, or the reason why there is none."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from multiform.models.servers.http_client import HTTPClient, UnreadableError, decoded

#: The most bytes of an answer: the log-probabilities of a prompt of 100,000 tokens are some 10 MB.
LONGEST_ANSWER = 64 * 2**20
#: Statuses of a server that is overloaded or being restarted, whatever it is asked.
_BUSY = frozenset({429, 502, 503, 504, 529, *range(520, 525)})
#: Other statuses that may pass, and those of 500 and more that do not.
_PASSING = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505, 510, 511})


class FailedAttemptError(Exception):
    """An attempt that is worth repeating.

    `busy` says that the server takes no requests for now, where it is otherwise the request that may be at fault.
    `wait` is the number of seconds that the server asks for.
    """

    def __init__(self, what: str, *, busy: bool = False, overloaded: bool = False, wait: float | None = None) -> None:
        super().__init__(what)
        self.busy = busy
        #: Whether fewer requests at a time would help.
        self.overloaded = overloaded
        self.wait = wait


class NoConnectionError(FailedAttemptError):
    """There is no server at the address, for now."""

    def __init__(self, what: str) -> None:
        super().__init__(what, busy=True)


class RefusedError(Exception):
    """An attempt that would fail again: the server refuses the request."""

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long one attempt may take, and how large its answer may be."""

    seconds: float
    size: int


def exchange(http: HTTPClient, method: str, url: httpx.URL, content: bytes | None, limits: Limits) -> Any:
    """The content of the server's answer; a FailedAttemptError or RefusedError where there is none."""
    deadline = time.monotonic() + limits.seconds
    late = f"no answer within {limits.seconds:g} s"
    body = bytearray()
    try:
        with http.ending_after(limits.seconds), http.stream(method, url, content=content) as response:
            for chunk in decoded(response, limits.size):
                body += chunk
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer drips in")
    except httpx.TimeoutException as error:
        raise FailedAttemptError(late, overloaded=True) from error
    except UnreadableError as error:
        raise FailedAttemptError(str(error)) from error
    except httpx.ConnectError as error:
        raise NoConnectionError(f"no connection: {error or 'refused'}") from error
    except httpx.TransportError as error:
        if time.monotonic() >= deadline:  # we have broken it ourselves
            raise FailedAttemptError(late, overloaded=True) from error
        raise FailedAttemptError(f"the connection broke: {error or type(error).__name__}") from error
    answer, is_json = _parsed(bytes(body))
    if response.status_code >= 300:
        raise _failure(response.status_code, answer, response.headers, response.reason_phrase)
    if not is_json:
        raise FailedAttemptError(f"the answer is not JSON: {answer or 'it is empty'}")
    if isinstance(answer, Mapping) and answer.get("error"):
        raise _failure(_status(answer["error"]), answer, response.headers, "")
    return answer


def _parsed(body: bytes) -> tuple[Any, bool]:
    """The content of a body and whether it is JSON; text otherwise."""
    try:
        return json.loads(body), True
    except (ValueError, RecursionError):
        # As much as a message may show, and more: what cuts it hides the secrets in it first.
        return " ".join(body[:20_000].decode("utf-8", "replace").split()), False


def _failure(status: int, answer: Any, headers: Mapping[str, str], otherwise: str) -> FailedAttemptError | RefusedError:
    """The failure that a status and the message with it say."""
    what = f"HTTP {status}: {_message(answer) or otherwise}" if status != 200 else f"an error: {_message(answer)}"
    if 300 <= status < 400:
        to = f" to {headers['location']}" if "location" in headers else ""
        return RefusedError(f"HTTP {status}: the server redirects{to}", status)
    if status in _BUSY:
        wait = retry_after(headers.get("retry-after"))
        wait = _google_delay(answer) if wait is None else wait
        return FailedAttemptError(what, busy=True, overloaded=status in (429, 503, 529), wait=wait)
    if status < 300 or status in _PASSING or (status >= 500 and status not in _LASTING):
        return FailedAttemptError(what, wait=retry_after(headers.get("retry-after")))
    return RefusedError(what, status)


def _status(error: Any) -> int:
    """The status that the body of an answer says, where the answer itself says that all is well."""
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 200


def _message(answer: Any) -> str:
    """The message of an error on one line: the protocol's `error.message`, or what stands in its place."""
    error = answer.get("error", answer) if isinstance(answer, Mapping) else answer
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or json.dumps(error, default=str)
    return " ".join(str(error).split())


def _google_delay(answer: Any) -> float | None:
    """The delay that Google's servers write into the body: ``{"retryDelay": "34s"}`` among the error's details."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str):
            return retry_after(delay.removesuffix("s"))
    return None


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
