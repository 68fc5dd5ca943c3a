"""A model server of its own process's threads: both endpoints, deterministic, with faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Fault:
    """What goes wrong with one request: a status, a delay, or a body that is sent as it is."""

    status: int = 200
    message: str = "something went wrong"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    body: bytes | None = None
    hang_up: bool = False


@dataclass
class Asked:
    """One request that reached the server."""

    path: str
    headers: dict[str, str]
    payload: dict[str, Any]
    at: float


@dataclass
class FakeServer:
    """A running server; `reply` says what the model writes, `faults` what goes wrong next."""

    base_url: str = ""
    asked: list[Asked] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    reply: Callable[[str], str] = lambda prompt: f"You said: {prompt}"
    #: Fields to leave out of an answer's `logprobs`, as some servers do.
    omitted: tuple[str, ...] = ()
    #: A first token that the server adds to prompts of text, as some do.
    first_token: str | None = None
    #: Whether prompts are echoed at all.
    echoes: bool = True
    delay: float = 0.0
    busy: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, times: int = 1, **fault: Any) -> None:
        """Let the next requests go wrong."""
        self.faults.extend(Fault(**fault) for _ in range(times))

    @staticmethod
    def likelihood(tokens: list[str], start: int) -> tuple[float, bool]:
        """The log-likelihood of the tokens from `start` on, and whether all of them are the likeliest."""
        pairs = list(zip(tokens[start - 1 :], tokens[start:], strict=False))
        return sum(logprob(*pair) or 0.0 for pair in pairs), all(is_best(*pair) for pair in pairs)


def logprob(before: str | None, token: str) -> float | None:
    """The log-probability of a token after another; the first has none."""
    if before is None:
        return None
    digest = hashlib.sha256(f"{before}\0{token}".encode()).digest()
    return -0.25 - digest[0] / 64


def is_best(before: str, token: str) -> bool:
    """Whether the token is the likeliest after the other one."""
    return hashlib.sha256(f"best\0{before}\0{token}".encode()).digest()[0] < 128


def words(text: str) -> list[str]:
    """The server's own tokens of a text: words with the white space before them."""
    return re.findall(r"\s*\S+|\s+$", text)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    state = FakeServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    http.daemon_threads = True
    state.base_url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join(timeout=5)


def _handler(state: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with state.lock:
                state.asked.append(Asked(self.path, dict(self.headers), json.loads(body), time.monotonic()))
                fault = state.faults.popleft() if state.faults else None
                state.busy += 1
                state.busiest = max(state.busiest, state.busy)
            try:
                time.sleep(fault.delay if fault else state.delay)
                self._respond(json.loads(body), fault)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a client that did not want to wait
            finally:
                with state.lock:
                    state.busy -= 1

        def _respond(self, payload: dict[str, Any], fault: Fault | None) -> None:
            if fault and fault.hang_up:
                self.close_connection = True
                return
            if fault and fault.status >= 400:
                self._send(fault.status, json.dumps({"error": {"message": fault.message}}).encode(), fault.headers)
            elif fault and fault.body is not None:
                self._send(200, fault.body, fault.headers)
            elif self.path.endswith("/chat/completions"):
                self._send(200, json.dumps(_chat(state, payload)).encode())
            elif self.path.endswith("/completions"):
                self._send(200, json.dumps(_completions(state, payload)).encode())
            else:
                self._send(404, json.dumps({"error": {"message": f"no route {self.path}"}}).encode())

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _written(state: FakeServer, prompt: str, payload: dict[str, Any]) -> tuple[str, str]:
    """The text and why it ended."""
    text = state.reply(prompt)
    limit = payload.get("max_tokens") or payload.get("max_completion_tokens") or 16
    kept = "".join(words(text)[:limit])
    ends = [kept.find(stop) for stop in payload.get("stop", ()) if stop in kept]
    if ends:
        return kept[: min(ends)], "stop"
    return kept, "length" if kept != text else "stop"


def _chat(state: FakeServer, payload: dict[str, Any]) -> dict[str, Any]:
    text, reason = _written(state, payload["messages"][-1]["content"], payload)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return {"object": "chat.completion", "choices": [choice]}


def _completions(state: FakeServer, payload: dict[str, Any]) -> dict[str, Any]:
    prompts = payload["prompt"]
    several = isinstance(prompts, list) and prompts and isinstance(prompts[0], list | str)
    choices = []
    for index, prompt in enumerate(prompts if several else [prompts]):
        shown = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
        text, reason = _written(state, shown, payload)
        choice: dict[str, Any] = {"index": index, "text": text, "finish_reason": reason}
        if payload.get("logprobs"):
            choice["logprobs"] = _logprobs(state, prompt, text)
        choices.append(choice)
    return {"object": "text_completion", "choices": choices}


def _logprobs(state: FakeServer, prompt: str | list[int], text: str) -> dict[str, Any]:
    tokens = words(prompt) if isinstance(prompt, str) else [f"t{token}" for token in prompt]
    if isinstance(prompt, str) and state.first_token is not None:
        tokens = [state.first_token, *tokens]
    written = words(text)[:1] or ["<end>"]
    tokens = [*tokens, *written] if state.echoes else written
    scores = [logprob(before, token) for before, token in zip([None, *tokens], tokens, strict=False)]
    tops: list[dict[str, float] | None] = [None]
    for before, token, score in zip(tokens, tokens[1:], scores[1:], strict=False):
        assert score is not None
        tops.append({token: score} if is_best(before, token) else {token: score, "<better>": score / 2})
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    made = {"tokens": tokens, "token_logprobs": scores, "top_logprobs": tops, "text_offset": offsets}
    return {key: value for key, value in made.items() if key not in state.omitted}
