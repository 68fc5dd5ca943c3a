"""The client of a model server: sends requests concurrently, and retries those that fail temporarily."""

from __future__ import annotations

import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import httpx

from multiform.errors import ModelError, UsageError
from multiform.models.servers.exchange import (
    MAX_RESPONSE_BYTES,
    FailedAttemptError,
    HTTPClient,
    Job,
    JobSchedule,
    NoConnectionError,
    RefusedError,
    exchange,
    fetch,
)
from multiform.models.servers.secrets import Redactor, proxy_secrets, shown_url, url_secrets
from multiform.requests import Completion, FailedRequest, LLOutput
from multiform.stopping import stop_requested
from multiform.terminal import visible

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")
#: What worker threads report: a result with the index of its request, or an error that ends the run.
_Report = tuple[int, Any] | Exception

#: Seconds before the first retry, unless the server sends Retry-After; doubled with each further attempt.
FIRST_WAIT = 0.5
#: The longest wait between two attempts, whatever the server asks for.
LONGEST_WAIT = 60.0
#: Seconds to keep trying a server that has never been reached: its address may be wrong.
FIRST_CONTACT = 20.0
#: Seconds between two checks for a requested stop, while no response arrives.
_STOP_CHECK_SECONDS = 0.2
#: Seconds for which further failures of an outage are not logged, and how much of their messages is alike.
_QUIET_SECONDS = 30.0
_SAME_OUTAGE = 40
#: Seconds for which a server counts as healthy after it responded to a probe.
_HEALTHY_SECONDS = 5.0
#: How often the probe is sent before the server counts as down.
_PROBES = 3
_HINTS = {
    403: "check what the key may do",
    404: "check base_url and model",
}
_RETRY_HINT = "check the server, then run the same command again: stored responses are not requested again"


class Client:
    """One endpoint of a server.

    `timeout` bounds one attempt and `deadline` all attempts at one request, in seconds. A request that fails while
    the server responds to others is retried at most `max_retries` times; a server that responds to none is retried
    until the deadline. `num_concurrent` is the maximum number of requests in flight. `probe` is a small request that
    every working server completes: it tells a bad request from a server that is down. `notice` is called with every
    response to a POST, by several threads.
    Secrets are sent as headers and parameters of the URL, and shown nowhere.
    """

    def __init__(
        self,
        *,
        url: httpx.URL,
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        timeout: float = 300.0,
        deadline: float = 900.0,
        max_retries: int = 5,
        num_concurrent: int = 8,
        probe: Mapping[str, Any] | None = None,
        key_hint: str = "give api_key",
        notice: Callable[[Any], None] = lambda response: None,
    ) -> None:
        self.url = url
        #: The URL without its secrets.
        self.shown = shown_url(url)
        self.timeout = timeout
        self.deadline = deadline
        self.max_retries = max_retries
        self.num_concurrent = num_concurrent
        self.probe = probe
        self.notice = notice
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        self._hints = {**_HINTS, 401: key_hint}
        self._redact = Redactor([*url_secrets(url), *proxy_secrets(), *secrets])
        self._random = random.Random()  # for jitter: the shared generator belongs to the tasks
        self._is_there = False
        self._has_responded = False
        self._healthy_until = 0.0
        #: When a failure was last logged, and how many like it were not, by the beginning of its message.
        self._outages: dict[str, tuple[float, int]] = {}

    def without_secrets(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Facts that a server reports, without the secrets that it repeats."""
        shown: dict[str, Any] = self._redact.plain(facts)
        return shown

    def ask(
        self,
        items: Sequence[Item],
        payload: Callable[[Item], Mapping[str, Any]],
        read: Callable[[Item, Any], Result],
    ) -> Iterator[tuple[int, Result | FailedRequest]]:
        """Send a request for each item, and yield its index with the result of `read`, in the order of the responses.

        `payload` makes the JSON body of an item's request, `read` its result from the item and the parsed response. A
        ModelError of `read` means a malformed response: the request is retried. An item whose request fails for good
        yields a `FailedRequest`. When the server fails or a stop is requested, nothing more is sent; requests in flight
        are completed and yielded before the error is raised, or the iteration ends.
        """
        if not items:
            return
        working = min(self.num_concurrent, len(items))
        schedule = JobSchedule(len(items), working)
        reports: SimpleQueue[_Report | None] = SimpleQueue()  # None from a worker that has ended

        def work(http: HTTPClient) -> None:
            with http:
                try:
                    while (job := schedule.take()) is not None:
                        item = items[job.index]
                        report = self._outcome(http, schedule, job, partial(payload, item), partial(read, item))
                        if isinstance(report, Exception):
                            schedule.stop()
                        if report is not None:
                            reports.put(report)
                finally:
                    reports.put(None)

        # Read once for all connections.
        certificates = httpx.create_ssl_context() if self.url.scheme == "https" else None
        failure: Exception | None = None
        try:
            for _ in range(working):
                # Daemons, so that a second interrupt does not wait for a slow server.
                threading.Thread(target=work, args=(self._http(certificates),), daemon=True).start()
            for report in _collect_reports(reports, schedule, working):
                if isinstance(report, Exception):
                    failure = failure or report
                else:
                    yield report
            if failure is not None:
                raise failure
        finally:
            schedule.stop()

    def single(
        self,
        payload: Mapping[str, Any] | None,
        read: Callable[[Any], Result],
        *,
        url: httpx.URL | None = None,
        attempts: int | None = None,
    ) -> Result | None:
        """The result of `read` for the response to a single request: a POST, or a GET where `payload` is None.

        None where the server refuses the request, or sends no usable response within `attempts`; an error where the
        server cannot be reached, does not have the model, or rejects the key.
        """
        most = self.max_retries + 1 if attempts is None else attempts
        content = None if payload is None else json.dumps(payload).encode()
        started, sent = time.monotonic(), 0
        with self._http() as http:
            while True:
                sent += 1
                try:
                    return self._parse_response(self._exchange(http, content, url), read)
                except RefusedError as refusal:
                    if content is not None and refusal.status in (401, 403, 404):
                        raise self.error(refusal) from refusal
                    return None
                except FailedAttemptError as failed:
                    wait = self.pause(failed, sent)
                    late = self.max_retries == 0 or time.monotonic() + wait - started > self._patience()
                    if failed.busy and late:
                        raise self.error(failed, sent) from failed
                    if not failed.busy and (late or sent >= most):
                        return None
                    self._log(failed, wait)
                    time.sleep(wait)

    def call(
        self,
        method: str,
        url: httpx.URL,
        content: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        size: int = MAX_RESPONSE_BYTES,
        once: bool = False,
    ) -> bytes:
        """The body of the response to one request beside those of the model.

        It is retried until the deadline, unless it may be sent only `once`: then a FailedAttemptError says that it may
        have worked. A RefusedError says that the server refuses it.
        """
        started, attempts = time.monotonic(), 0
        with self._http() as http:
            while True:
                attempts += 1
                try:
                    return fetch(http, method, url, content, headers=headers, seconds=self.timeout, size=size)[0]
                except FailedAttemptError as failed:
                    wait = self.pause(failed, attempts)
                    if once:
                        raise
                    if time.monotonic() + wait - started > self.deadline:
                        raise self.error(failed, attempts) from failed
                    self._log(failed, wait)
                    time.sleep(wait)

    def _outcome(
        self,
        http: HTTPClient,
        schedule: JobSchedule,
        job: Job,
        payload: Callable[[], Mapping[str, Any]],
        read: Callable[[Any], Any],
    ) -> _Report | None:
        """Send a request once: its result, a `FailedRequest`, or an error; None where it is sent again later."""
        try:
            content = json.dumps(payload()).encode()
            result = self._parse_response(self._exchange(http, content), read)
        except FailedAttemptError as failed:
            return self._after_failure(http, schedule, job, failed)
        except RefusedError as refusal:
            problem = self._problem(http, schedule, job)
            schedule.drop()
            if isinstance(problem, RefusedError):  # it refuses every request
                return self.error(refusal)
            return job.index, self._failed_request(refusal, job)
        except Exception as error:  # noqa: BLE001  (it is raised where the results are read)
            schedule.drop()
            return error
        seconds = time.monotonic() - job.sent
        schedule.complete(job, slow=seconds > self.timeout / 2)
        return job.index, _with_seconds(result, round(seconds, 3))

    def _parse_response(self, response: Any, read: Callable[[Any], Result]) -> Result:
        """The result of `read` for a response; a malformed response is a failed attempt."""
        try:
            return read(response)
        except ModelError as error:
            raise FailedAttemptError(error.what) from error
        except RecursionError as error:
            raise FailedAttemptError("the response is nested too deeply") from error

    def _after_failure(
        self, http: HTTPClient, schedule: JobSchedule, job: Job, failed: FailedAttemptError
    ) -> _Report | None:
        """Schedule a retry; once retries are exhausted, report that the request failed, or the server."""
        wait = self.pause(failed, job.attempts)
        late = self.max_retries == 0 or time.monotonic() + wait - job.first_sent > self._patience()
        exhausted = not failed.busy and job.attempts > self.max_retries
        if exhausted or late:
            if self._problem(http, schedule, job) is None:
                schedule.drop()
                return job.index, self._failed_request(failed, job)
            if late:
                schedule.drop()
                return self.error(failed, job.attempts)
        self._log(failed, wait)
        schedule.retry(job, wait, failed)
        return None

    def _problem(self, http: HTTPClient, schedule: JobSchedule, job: Job) -> Exception | None:
        """What is wrong with the server, by its responses since the job was sent, or to a probe sent now.

        None means that the server works, and the request itself must be at fault.
        """
        if schedule.last_response > job.sent or time.monotonic() < self._healthy_until:
            return None
        if self.probe is None:
            return None if self._has_responded else RefusedError("the server has not responded yet")
        problem: Exception | None = None
        for attempt in range(1, _PROBES + 1):
            try:
                self._exchange(http, json.dumps(self.probe).encode())
            except RefusedError as refusal:
                return refusal
            except FailedAttemptError as failed:
                problem = failed
                time.sleep(min(self.pause(failed, attempt), 1.0))
            else:
                self._healthy_until = time.monotonic() + _HEALTHY_SECONDS
                return None
        return problem

    def _exchange(self, http: HTTPClient, content: bytes | None, url: httpx.URL | None = None) -> Any:
        method = "GET" if content is None else "POST"
        try:
            response = exchange(http, method, url or self.url, content, seconds=self.timeout, size=MAX_RESPONSE_BYTES)
        except (FailedAttemptError, RefusedError) as error:
            self._is_there = self._is_there or not isinstance(error, NoConnectionError)
            raise
        self._is_there = self._has_responded = True
        if content is not None:
            self.notice(response)
        return response

    def _patience(self) -> float:
        """The seconds after which a request is not sent again."""
        return self.deadline if self._is_there else min(self.deadline, FIRST_CONTACT)

    def pause(self, failed: FailedAttemptError, attempts: int) -> float:
        """Seconds until the next attempt, with jitter: requests that failed together are not retried together."""
        if failed.wait is not None:
            return min(failed.wait, LONGEST_WAIT) + self._random.uniform(0, FIRST_WAIT)
        return min(FIRST_WAIT * 2.0 ** min(attempts - 1, 20), LONGEST_WAIT) * self._random.uniform(0.5, 1)

    def _failed_request(self, why: Exception, job: Job) -> FailedRequest:
        return FailedRequest(reason=self.clean(str(why)), retried=job.attempts - 1)

    def error(self, why: Exception, attempts: int = 0) -> ModelError:
        """The error that ends a run, for a request that was refused, or failed in all attempts."""
        message = self.clean(str(why))
        if isinstance(why, RefusedError):
            hint = self._hints.get(why.status, "check the model's arguments and the prompt")
            return ModelError(message, where=self.shown, hint=hint)
        return ModelError(
            f"{message} after {attempts} attempt{'s' if attempts > 1 else ''}", where=self.shown, hint=_RETRY_HINT
        )

    def _log(self, failed: FailedAttemptError, wait: float) -> None:
        """Log the failed attempt; of those of one outage, which all queued requests have, one line in a while."""
        message = self.clean(str(failed))
        last, count = self._outages.get(message[:_SAME_OUTAGE], (-_QUIET_SECONDS, 0))
        now = time.monotonic()
        is_new = now - last >= _QUIET_SECONDS
        self._outages[message[:_SAME_OUTAGE]] = (now, 0) if is_new else (last, count + 1)
        more = f" ({count} more attempts have failed)" if count else ""
        level = logging.INFO if is_new else logging.DEBUG
        logger.log(level, "%s: %s%s; trying again in %.1f s", self.shown, message, more, wait)

    def clean(self, text: str) -> str:
        """A message of the server on one line: without secrets, control characters made visible, and not too long."""
        shown = visible(" ".join(self._redact(text).splitlines()))
        return shown if len(shown) <= 500 else shown[:499] + "…"

    def _http(self, certificates: ssl.SSLContext | None = None) -> HTTPClient:
        try:
            verify = certificates or self.url.scheme == "https"
            return HTTPClient(headers=self._headers, timeout=self.timeout, verify=verify)
        except (httpx.InvalidURL, ValueError) as error:  # its proxies are checked: what is left are the exceptions
            message = "it has an entry that is not a host"
            raise UsageError(message, where="$NO_PROXY", hint="write e.g. localhost,.example.org") from error


def _collect_reports(reports: SimpleQueue[_Report | None], schedule: JobSchedule, workers: int) -> Iterator[_Report]:
    """The reports of the worker threads until all have ended; after a requested stop, nothing more is sent."""
    while workers:
        if stop_requested():
            schedule.stop()
        try:
            report = reports.get(timeout=_STOP_CHECK_SECONDS)
        except Empty:
            continue
        if report is None:
            workers -= 1
        else:
            yield report


def _with_seconds(result: Any, seconds: float) -> Any:
    """A response, or several by position, with the time that their request took."""
    if isinstance(result, Completion | LLOutput):
        return replace(result, seconds=seconds)
    if isinstance(result, dict) and all(isinstance(output, LLOutput) for output in result.values()):
        return {position: replace(output, seconds=seconds) for position, output in result.items()}
    return result
