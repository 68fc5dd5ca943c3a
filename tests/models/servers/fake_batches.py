"""A server with the batch interface of OpenAI, Anthropic or Google, as documented, which counts what is paid for."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Kind = Literal["openai-chat", "anthropic", "gemini"]
KINDS: tuple[Kind, ...] = ("openai-chat", "anthropic", "gemini")
#: What becomes of one request: it is done and paid for, or it is not.
Fate = Literal["done", "invalid", "overloaded", "expired", "cancelled", "lost"]
Line = tuple[str, dict[str, Any]]


@dataclass
class FakeBatch:
    """A batch on the server."""

    id: str
    token: str
    lines: list[Line]
    #: How often it is looked at before it ends.
    polls: int
    state: Literal["running", "cancelling", "ended", "failed"] = "running"
    fates: list[Fate] = field(default_factory=list)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat())


@dataclass
class FakeBatches:
    """The server; `fate_of` says what becomes of a prompt at its nth submission."""

    kind: Kind
    base_url: str = ""
    fate_of: Callable[[str, int], Fate] = lambda prompt, submission: "done"
    #: How often a batch is looked at before it ends; None holds all batches until it is set.
    polls: int | None = 1
    #: How many creations work without the client hearing of it, and how many fail with 503.
    lost_creations: int = 0
    failed_creations: int = 0
    #: Prompts for which OpenAI refuses a whole batch.
    refused: tuple[str, ...] = ()
    #: What the server says instead of an answer of the batch interface.
    distort: Callable[[Any], Any] = lambda answer: answer
    batches: dict[str, FakeBatch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    submitted: Counter[str] = field(default_factory=Counter)
    single: int = 0
    cancelled: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def reply(self, prompt: str) -> dict[str, Any]:
        """A completion in the terms of the protocol."""
        text = f"You said: {prompt}"
        if self.kind == "openai-chat":
            message = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": 10, "completion_tokens": 3}
            return {
                "model": "tiny",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": usage,
            }
        if self.kind == "anthropic":
            usage = {"input_tokens": 10, "output_tokens": 3}
            content = [{"type": "text", "text": text}]
            return {"type": "message", "model": "tiny", "content": content, "stop_reason": "end_turn", "usage": usage}
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 3}}

    def create(self, token: str, lines: list[Line]) -> FakeBatch:
        assert len({id for id, _ in lines}) == len(lines), "a custom id stands twice in a batch"
        number = len(self.batches) + 1
        id = {"openai-chat": "batch_", "anthropic": "msgbatch_", "gemini": "batches/"}[self.kind] + str(number)
        batch = self.batches[id] = FakeBatch(id, token, lines, self.polls or 0)
        for _, body in lines:
            self.submitted[prompt_of(body)] += 1
        if any(prompt_of(body) in self.refused for _, body in lines):
            batch.state = "failed"
        return batch

    def look(self, id: str) -> FakeBatch:
        """The batch, which goes on by one step."""
        batch = self.batches[id]
        if batch.state == "cancelling":
            self._end(batch, done=len(batch.lines) // 2)
        elif batch.state == "running" and self.polls is not None:
            batch.polls -= 1
            if batch.polls < 0:
                self._end(batch, done=len(batch.lines))
        return batch

    def _end(self, batch: FakeBatch, done: int) -> None:
        batch.state = "ended"
        for number, (_, body) in enumerate(batch.lines):
            prompt = prompt_of(body)
            fate = self.fate_of(prompt, self.submitted[prompt]) if number < done else "cancelled"
            batch.fates.append(fate)
            self.paid[prompt] += fate == "done"


def prompt_of(body: dict[str, Any]) -> str:
    """The text of the last message."""
    if "contents" in body:
        return str(body["contents"][-1]["parts"][-1]["text"])
    return str(body["messages"][-1]["content"])


def _openai(server: FakeBatches, method: str, path: str, body: bytes, content_type: str) -> tuple[int, Any]:
    if path == "/v1/files":
        form: Any = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        assert parts["purpose"].get_payload() == "batch"
        id = f"file-{len(server.files)}"
        server.files[id] = parts["file"].get_payload(decode=True)
        return 200, {"id": id, "object": "file"}
    if path.startswith("/v1/files/"):
        return 200, server.files[path.split("/")[3]]
    if path == "/v1/batches" and method == "POST":
        about = json.loads(body)
        assert about["completion_window"] == "24h"
        lines = [json.loads(line) for line in server.files[about["input_file_id"]].splitlines()]
        assert all(line["url"] == about["endpoint"] == "/v1/chat/completions" for line in lines)
        return 200, _openai_batch(
            server, server.create(about["metadata"]["multiform"], [(line["custom_id"], line["body"]) for line in lines])
        )
    if path == "/v1/batches":
        return 200, {"data": [_openai_batch(server, batch) for batch in server.batches.values()]}
    id = path.split("/")[3]
    if path.endswith("/cancel"):
        server.cancelled.append(id)
        server.batches[id].state = "cancelling"
    elif id not in server.batches:
        return 404, {"error": {"message": f"No batch found with id '{id}'."}}
    return 200, _openai_batch(server, server.look(id) if method == "GET" else server.batches[id])


def _openai_batch(server: FakeBatches, batch: FakeBatch) -> dict[str, Any]:
    state = {"running": "in_progress", "ended": "completed"}.get(batch.state, batch.state)
    about: dict[str, Any] = {"id": batch.id, "object": "batch", "metadata": {"multiform": batch.token}}
    if batch.state == "failed":
        lines = [n for n, (_, body) in enumerate(batch.lines, start=1) if prompt_of(body) in server.refused]
        about["errors"] = {"data": [{"code": "invalid", "line": n, "message": "no such option"} for n in lines]}
    if batch.state == "ended":
        if "expired" in batch.fates:
            state = "expired"
        elif "cancelled" in batch.fates:
            state = "cancelled"
        output, errors = [], []
        for (id, body), fate in zip(batch.lines, batch.fates, strict=True):
            line: dict[str, Any] = {"id": f"batch_req_{id}", "custom_id": id, "response": None, "error": None}
            if fate == "done":
                output.append({**line, "response": {"status_code": 200, "body": server.reply(prompt_of(body))}})
            elif fate in ("invalid", "overloaded"):
                status = 400 if fate == "invalid" else 429
                response = {"status_code": status, "body": {"error": {"message": f"it is {fate}"}}}
                errors.append({**line, "response": response})
            elif fate != "lost":
                errors.append({**line, "error": {"code": f"batch_{fate}", "message": f"This request {fate}."}})
        for name, listed in (("output", output), ("error", errors)):
            if listed:
                about[f"{name}_file_id"] = f"file-{name}-{batch.id}"
                server.files[f"file-{name}-{batch.id}"] = "".join(
                    f"{json.dumps(x)}\n" for x in reversed(listed)
                ).encode()
    return {**about, "status": state, "request_counts": {"total": len(batch.lines), "completed": 0, "failed": 0}}


def _anthropic(server: FakeBatches, method: str, path: str, body: bytes, content_type: str) -> tuple[int, Any]:
    parts = path.removeprefix("/v1/messages/batches").strip("/").split("/")
    if parts == [""]:
        if method == "GET":
            return 200, {"data": [_anthropic_batch(batch) for batch in server.batches.values()]}
        lines = [(request["custom_id"], request["params"]) for request in json.loads(body)["requests"]]
        return 200, _anthropic_batch(server.create("", lines))
    id = parts[0]
    if id not in server.batches:
        return 404, {"type": "error", "error": {"type": "not_found_error", "message": "no such batch"}}
    batch = server.batches[id]
    if parts[1:] == ["cancel"]:
        server.cancelled.append(id)
        batch.state = "cancelling"
    elif parts[1:] == ["results"]:
        return 200, "".join(f"{json.dumps(line)}\n" for line in _anthropic_results(server, batch)).encode()
    elif method == "GET":
        server.look(id)
    return 200, _anthropic_batch(batch)


def _anthropic_batch(batch: FakeBatch) -> dict[str, Any]:
    names = {"done": "succeeded", "cancelled": "canceled", "expired": "expired"}
    counts = Counter(names.get(fate, "errored") for fate in batch.fates)
    counts["processing"] = len(batch.lines) - len(batch.fates)
    state = {"running": "in_progress", "cancelling": "canceling"}.get(batch.state, batch.state)
    about = {"id": batch.id, "type": "message_batch", "created_at": batch.created, "results_url": None}
    return {**about, "processing_status": state, "request_counts": dict(counts)}


def _anthropic_results(server: FakeBatches, batch: FakeBatch) -> Iterator[dict[str, Any]]:
    errors = {"invalid": "invalid_request_error", "overloaded": "overloaded_error"}
    for (id, body), fate in zip(batch.lines, batch.fates, strict=True):
        if fate == "done":
            yield {"custom_id": id, "result": {"type": "succeeded", "message": server.reply(prompt_of(body))}}
        elif fate in errors:
            error = {"type": "error", "error": {"type": errors[fate], "message": f"it is {fate}"}}
            yield {"custom_id": id, "result": {"type": "errored", "error": error}}
        elif fate != "lost":
            yield {"custom_id": id, "result": {"type": "canceled" if fate == "cancelled" else fate}}


def _gemini(server: FakeBatches, method: str, path: str, body: bytes, content_type: str) -> tuple[int, Any]:
    path = path.removeprefix("/v1beta/")
    if path.endswith(":batchGenerateContent"):
        batch = json.loads(body)["batch"]
        requests = batch["input_config"]["requests"]["requests"]
        made = server.create(batch["display_name"], [(each["metadata"]["key"], each["request"]) for each in requests])
        return 200, _gemini_batch(server, made)
    if path == "batches":
        return 200, {"operations": [_gemini_batch(server, batch) for batch in server.batches.values()]}
    id = path.removesuffix(":cancel")
    if id not in server.batches:
        return 404, {"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}
    if path.endswith(":cancel"):
        server.cancelled.append(id)
        server.batches[id].state = "cancelling"
        return 200, {}
    return 200, _gemini_batch(server, server.look(id))


def _gemini_batch(server: FakeBatches, batch: FakeBatch) -> dict[str, Any]:
    state = {"running": "RUNNING", "cancelling": "RUNNING", "ended": "SUCCEEDED", "failed": "FAILED"}[batch.state]
    about = {"displayName": batch.token, "state": f"BATCH_STATE_{state}", "batchStats": {"requestCount": "1"}}
    operation: dict[str, Any] = {"name": batch.id, "metadata": about}
    if batch.state != "ended":
        return operation
    codes = {"invalid": 3, "overloaded": 8, "expired": 4, "cancelled": 1, "lost": 13}
    responses: list[dict[str, Any]] = []
    for number, ((id, body), fate) in enumerate(zip(batch.lines, batch.fates, strict=True)):
        about_it = {"metadata": {"key": id}} if number % 2 else {}  # it is missing in some versions
        if fate == "done":
            responses.append({"response": server.reply(prompt_of(body)), **about_it})
        else:
            responses.append({"error": {"code": codes[fate], "message": f"it is {fate}"}, **about_it})
    return {**operation, "done": True, "response": {"inlinedResponses": {"inlinedResponses": responses}}}


@contextmanager
def fake_batches(kind: Kind, **state: Any) -> Iterator[FakeBatches]:
    """A running server."""
    server = FakeBatches(kind, **state)
    respond = {"openai-chat": _openai, "anthropic": _anthropic, "gemini": _gemini}[kind]

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # headers and body are sent apart

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            with server.lock:
                creating = self.command == "POST" and path.endswith(("/batches", ":batchGenerateContent"))
                if creating and server.failed_creations:
                    server.failed_creations -= 1
                    return self._send(503, {"error": {"message": "overloaded"}})
                if path.endswith(("/chat/completions", "/messages", ":generateContent")):
                    server.single += 1
                    return self._send(200, server.reply(prompt_of(json.loads(body))))
                if "/models" in path and self.command == "GET":
                    return self._send(200, {"data": [{"id": "tiny"}], "id": "tiny", "name": "models/tiny"})
                status, answer = respond(server, self.command, path, body, self.headers.get("Content-Type", ""))
                if creating and server.lost_creations:
                    server.lost_creations -= 1
                    self.close_connection = True
                    self.connection.close()
                    return None
            return self._send(status, answer if isinstance(answer, bytes) else server.distort(answer))

        def _send(self, status: int, answer: Any) -> None:
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _handle  # noqa: N815

        def log_message(self, *args: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.base_url = f"http://127.0.0.1:{http.server_port}/{'v1beta' if kind == 'gemini' else 'v1'}"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
