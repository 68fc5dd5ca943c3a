"""The batch interfaces of OpenAI, Anthropic and Google: how a batch is submitted, watched, cancelled and read."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import httpx

from multiform.errors import ModelError, excerpt
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import (
    FailedAttemptError,
    RefusedError,
    mapping_in,
    mappings_in,
    response_failure,
)

#: What became of a request: the body of its response, an error that may pass, or one that will not.
Outcome: TypeAlias = Mapping[str, Any] | FailedAttemptError | RefusedError
#: The largest results of a batch.
_MOST_RESULT_BYTES = 2**30
#: Seconds by which the clocks of a server and of this machine may differ.
_CLOCKS = 300.0
#: The most batches that are listed in the search for one.
_LISTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """How far a batch is."""

    ended: bool
    #: The server's word for it.
    state: str
    done: int = 0
    #: Why the whole batch failed, and the lines at fault by their number, from 0.
    problem: str = ""
    lines: Mapping[int, str] = field(default_factory=dict)


class BatchInterface(ABC):
    """A batch interface of one server and model; `path` is that of the endpoint for single requests."""

    #: The most requests and bytes of one batch.
    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]
    #: The path at which a batch is cancelled.
    cancel_path: ClassVar[str]

    def __init__(self, client: Client, url: Callable[[str], httpx.URL], path: str) -> None:
        self._client, self._url, self._path = client, url, path

    @abstractmethod
    def create(self, token: str, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """Submit requests with their custom ids; returns the id of the batch. A failed attempt may have worked."""

    @abstractmethod
    def find(self, token: str, number: int, since: float, known: Collection[str]) -> str | None:
        """The id of a batch that was submitted with this token, of so many requests, at about this time.

        `known` are the ids of other batches.
        """

    @abstractmethod
    def status(self, id: str) -> BatchStatus:
        """How far the batch is; a RefusedError if the server does not have it."""

    @abstractmethod
    def outcomes(self, id: str, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        """What became of the requests of a batch that has ended, by their custom ids, which were `ids`."""

    def cancel(self, id: str) -> None:
        """Have no further request of the batch begin."""
        self._call("POST", self.cancel_path.format(id=id), {})

    def _call(
        self, method: str, path: str, value: Any = None, *, once: bool = False, **parameters: int
    ) -> Mapping[str, Any]:
        """The JSON object of a response; with `once`, a failed attempt is not repeated."""
        content = None if value is None else json.dumps(value).encode()
        url = self._url(path).copy_merge_params(parameters)
        parsed = _parse(self._client.call(method, url, content, once=once, size=_MOST_RESULT_BYTES))
        if not isinstance(parsed, Mapping):
            raise ModelError(f"a response of the batch interface is {excerpt(parsed)}", hint="check base_url")
        return parsed

    def _lines(self, path: str) -> Iterator[Mapping[str, Any]]:
        for line in self._client.call("GET", self._url(path), size=_MOST_RESULT_BYTES).splitlines():
            if line.strip() and isinstance(parsed := _parse(line), Mapping):
                yield parsed


class OpenAIBatches(BatchInterface):
    """``/batches`` with a file of requests: https://platform.openai.com/docs/guides/batch."""

    most_requests = 50_000
    most_bytes = 190_000_000
    cancel_path = "batches/{id}/cancel"

    def create(self, token: str, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        endpoint = f"/v1/{self._path}"
        lines = [{"custom_id": id, "method": "POST", "url": endpoint, "body": body} for id, body in requests]
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        form = httpx.Request(
            "POST",
            self._url("files"),
            data={"purpose": "batch"},
            files={"file": (f"{token}.jsonl", data, "application/jsonl")},
        )
        headers = {"Content-Type": form.headers["Content-Type"]}
        file = _parse(self._client.call("POST", self._url("files"), form.read(), headers=headers))
        about = {"input_file_id": _id(file, "id"), "endpoint": endpoint, "completion_window": "24h"}
        return _id(self._call("POST", "batches", {**about, "metadata": {"multiform": token}}, once=True), "id")

    def find(self, token: str, number: int, since: float, known: Collection[str]) -> str | None:
        for batch in mappings_in(self._call("GET", "batches", limit=_LISTED), "data"):
            if mapping_in(batch, "metadata").get("multiform") == token:
                return _id(batch, "id")
        return None

    def status(self, id: str) -> BatchStatus:
        batch = self._call("GET", f"batches/{id}")
        state = _text(batch, "status")
        errors = mappings_in(mapping_in(batch, "errors"), "data")
        return BatchStatus(
            ended=state in ("completed", "failed", "expired", "cancelled"),
            state=state,
            done=sum(_number(mapping_in(batch, "request_counts").get(key)) for key in ("completed", "failed")),
            problem="; ".join(str(error.get("message") or error.get("code")) for error in errors[:3]) or state
            if state == "failed"
            else "",
            lines={e["line"] - 1: str(e.get("message")) for e in errors if isinstance(e.get("line"), int)},
        )

    def outcomes(self, id: str, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        batch = self._call("GET", f"batches/{id}")
        for key in ("output_file_id", "error_file_id"):
            if batch.get(key):
                for line in self._lines(f"files/{_id(batch, key)}/content"):
                    yield _text(line, "custom_id"), _openai_outcome(line)


def _openai_outcome(line: Mapping[str, Any]) -> Outcome:
    response, error = mapping_in(line, "response"), mapping_in(line, "error")
    if error:
        return FailedAttemptError(str(error.get("message") or error.get("code")))
    status, body = response.get("status_code"), response.get("body")
    if status == 200 and isinstance(body, Mapping):
        return body
    return response_failure(_number(status) or 500, body)


class AnthropicBatches(BatchInterface):
    """``/messages/batches``: https://docs.anthropic.com/en/docs/build-with-claude/batch-processing."""

    most_requests = 100_000
    most_bytes = 240_000_000
    cancel_path = "messages/batches/{id}/cancel"

    def create(self, token: str, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        listed = [{"custom_id": id, "params": body} for id, body in requests]
        return _id(self._call("POST", "messages/batches", {"requests": listed}, once=True), "id")

    def find(self, token: str, number: int, since: float, known: Collection[str]) -> str | None:
        """By time and size, as batches have no place for a token; requests that it lacks are submitted again."""
        for batch in mappings_in(self._call("GET", "messages/batches", limit=_LISTED), "data"):
            counts = [count for count in mapping_in(batch, "request_counts").values() if isinstance(count, int)]
            if sum(counts) == number and _time(batch) > since - _CLOCKS and batch.get("id") not in known:
                return _id(batch, "id")
        return None

    def status(self, id: str) -> BatchStatus:
        batch = self._call("GET", f"messages/batches/{id}")
        state, counts = _text(batch, "processing_status"), mapping_in(batch, "request_counts")
        done = sum(_number(count) for name, count in counts.items() if name != "processing")
        return BatchStatus(ended=state == "ended", state=state, done=done)

    def outcomes(self, id: str, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        # Not the address in `results_url`: the key goes to the user's server alone.
        for line in self._lines(f"messages/batches/{id}/results"):
            yield _text(line, "custom_id"), _anthropic_outcome(mapping_in(line, "result"))


#: Anthropic's errors by name, where their statuses say whether they may pass.
_ANTHROPIC_STATUS = {"api_error": 500, "overloaded_error": 529, "rate_limit_error": 429, "timeout_error": 504}


def _anthropic_outcome(result: Mapping[str, Any]) -> Outcome:
    if result.get("type") == "succeeded":
        return mapping_in(result, "message")
    if result.get("type") != "errored":
        return FailedAttemptError(f"the request {result.get('type')} in the batch")
    error = mapping_in(result, "error")
    kind = str(mapping_in(error, "error").get("type") or error.get("type"))
    return response_failure(_ANTHROPIC_STATUS.get(kind, 400), error)


class GeminiBatches(BatchInterface):
    """``:batchGenerateContent`` with the requests inline: https://ai.google.dev/api/batch-api."""

    most_requests = 10_000
    most_bytes = 18_000_000
    cancel_path = "{id}:cancel"

    def create(self, token: str, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        listed = [{"request": body, "metadata": {"key": id}} for id, body in requests]
        batch = {"display_name": _display_name(token), "input_config": {"requests": {"requests": listed}}}
        path = self._path.replace(":generateContent", ":batchGenerateContent")
        return _id(self._call("POST", path, {"batch": batch}, once=True), "name")

    def find(self, token: str, number: int, since: float, known: Collection[str]) -> str | None:
        for batch in mappings_in(self._call("GET", "batches", pageSize=_LISTED), "operations"):
            about = mapping_in(batch, "metadata") or batch
            if _display_name(token) in (about.get("displayName"), about.get("display_name")):
                return _id(batch, "name")
        return None

    def status(self, id: str) -> BatchStatus:
        batch = self._call("GET", id)
        about = mapping_in(batch, "metadata")
        state = str(about.get("state") or batch.get("state") or "").rpartition("_STATE_")[2] or "PENDING"
        stats = mapping_in(about, "batchStats")
        error = mapping_in(batch, "error")
        return BatchStatus(
            ended=state in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED") or bool(batch.get("done")),
            state=state.lower(),
            done=_number(stats.get("successfulRequestCount")) + _number(stats.get("failedRequestCount")),
            problem=str(error.get("message") or "failed") if state == "FAILED" else "",
        )

    def outcomes(self, id: str, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        batch = self._call("GET", id)
        output = mapping_in(batch, "response") or mapping_in(mapping_in(batch, "metadata"), "output")
        listed = mapping_in(output, "inlinedResponses").get("inlinedResponses")
        # In the order of the requests; the key is missing in some versions of the interface.
        for position, entry in enumerate(listed if isinstance(listed, list) else ()):
            key = str(mapping_in(entry, "metadata").get("key") or (ids[position] if position < len(ids) else ""))
            yield key, _gemini_outcome(entry)


#: The codes of Google's errors that may pass: cancelled, unknown, deadline exceeded, resource exhausted, aborted,
#: internal, unavailable; and statuses of HTTP.
_GOOGLE_PASSING = frozenset({1, 2, 4, 8, 10, 13, 14, 429, 500, 503, 504})


def _gemini_outcome(entry: Mapping[str, Any]) -> Outcome:
    if error := mapping_in(entry, "error"):
        code, message = error.get("code"), str(error.get("message") or "an error")
        passing = isinstance(code, int) and code in _GOOGLE_PASSING
        return FailedAttemptError(message) if passing else RefusedError(message)
    return mapping_in(entry, "response")


def _display_name(token: str) -> str:
    return f"multiform-{token}"


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ModelError("a response of the batch interface is not JSON") from error


def _text(value: Any, key: str) -> str:
    text = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(text, str):
        raise ModelError(f"a response of the batch interface has no '{key}'", hint="check base_url, or leave batch out")
    return text


def _id(value: Any, key: str) -> str:
    """The name of a batch or a file, which becomes a part of an address."""
    id = _text(value, key)
    if not re.fullmatch(r"[\w./:-]{1,500}", id, re.ASCII):
        raise ModelError(f"a response of the batch interface has the {key} {excerpt(id)}", hint="check base_url")
    return id


def _time(batch: Mapping[str, Any]) -> float:
    """When a batch was created, in seconds since 1970."""
    written = _text(batch, "created_at")
    try:
        return datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError) as error:
        raise ModelError(f"a batch was created at no time: {excerpt(written)}", hint="check base_url") from error


def _number(value: Any) -> int:
    """A count, which Google writes as text."""
    is_count = isinstance(value, int) or (isinstance(value, str) and value.isdecimal() and len(value) < 20)
    return int(value) if is_count else 0
