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
from itertools import pairwise
from typing import Any

from multiform.models.servers.server_model import PROBE


@dataclass
class Fault:
    """What goes wrong with one request: a status, a delay, a body that is sent as it is, or wrong numbers."""

    status: int = 200
    message: str = "something went wrong"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    body: bytes | None = None
    hang_up: bool = False
    #: Changes the log-probabilities of an echoed prompt.
    distort: Callable[[dict[str, Any]], None] | None = None


@dataclass
class Asked:
    """One request that reached the server."""

    path: str
    headers: dict[str, str]
    payload: dict[str, Any]
    at: float


@dataclass
class FakeServer:
    """A running server; `reply` says what the model writes, `faults` what goes wrong next.

    Faults are for what is asked about documents: small requests that find out about the server are recorded
    apart and go well, unless `probe_faults` has some.
    """

    base_url: str = ""
    asked: list[Asked] = field(default_factory=list)
    probes: list[Asked] = field(default_factory=list)
    probe_faults: deque[Fault] = field(default_factory=deque)
    #: What the list of models says beside their names; None where there is no list.
    model_facts: dict[str, Any] | None = field(default_factory=dict)
    system_fingerprint: str | None = None
    #: How many alternatives of a token are listed.
    alternatives: int = 20
    #: What goes wrong with a request, by its prompt; before `faults`.
    fault_of: Callable[[str], Fault | None] = lambda prompt: None
    faults: deque[Fault] = field(default_factory=deque)
    reply: Callable[[str], str] = lambda prompt: f"You said: {prompt}"
    #: Fields to leave out of a response's `logprobs`, as some servers do.
    omitted: tuple[str, ...] = ()
    #: A first token that the server adds to prompts of text, as some do.
    first_token: str | None = None
    #: Whether prompts are echoed at all.
    echoes: bool = True
    #: Whether completions list their tokens as chats do, like llama.cpp's server, which ignores `echo`.
    chat_layout: bool = False
    #: How a token that is sent by its id is spelled.
    decode: Callable[[int], str] = lambda token: f"t{token}"
    #: Changes the log-probabilities of all echoed prompts.
    distort: Callable[[dict[str, Any]], None] = lambda logprobs: None
    #: The name of the model in responses.
    model_version: str = "tiny"
    #: The tokens that responses count; None where they count none.
    usage: dict[str, int] | None = None
    #: Whether given tokens are listed in one step, and generated where they are given, as vLLM does it.
    lists: bool = False
    #: Whether the last message of a chat is continued where a request says so, as vLLM does it.
    continues: bool = False
    forces: bool = False
    delay: float = 0.0
    busy: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, path: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        """The response to a request that goes well; None where nothing is at the path."""
        if path.endswith("/chat/completions"):
            return _chat(self, payload)
        return _completions(self, payload) if path.endswith("/completions") else None

    def error(self, fault: Fault) -> dict[str, Any]:
        """The body of an error."""
        return {"error": {"message": fault.message}}

    def model_list(self, path: str) -> dict[str, Any]:
        """What the server says about its models."""
        return {"object": "list", "data": [{"id": "other"}, {"id": "tiny", **(self.model_facts or {})}]}

    def fail(self, times: int = 1, **fault: Any) -> None:
        """Let the next requests go wrong."""
        self.faults.extend(Fault(**fault) for _ in range(times))

    @staticmethod
    def likelihood(tokens: list[str], start: int) -> tuple[float, bool]:
        """The log-likelihood of the tokens from `start` on, and whether all of them are the likeliest."""
        pairs = list(zip(tokens[start - 1 :], tokens[start:], strict=False))
        return sum(logprob(*pair) or 0.0 for pair in pairs), all(is_best(*pair) for pair in pairs)


#: The prompts that find out about a server.
PROBES = (PROBE, "one two three four", "one two nine four", "[1, 2]", "Red,")


def prompt_of(payload: dict[str, Any]) -> str:
    """The prompt of a request, or its last message."""
    if "contents" in payload:
        return str(payload["contents"][-1]["parts"][-1].get("text", ""))
    prompt = payload["messages"][-1]["content"] if "messages" in payload else payload.get("prompt", "")
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


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
def fake_server(port: int = 0, state: FakeServer | None = None) -> Iterator[FakeServer]:
    """A running server, of OpenAI's protocol unless its state says otherwise."""
    state = state or FakeServer()
    http = ThreadingHTTPServer(("127.0.0.1", port), _handler(state))
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
        disable_nagle_algorithm = True  # headers and body are sent apart: the body would wait for an answer

        def do_GET(self) -> None:
            if state.model_facts is None:
                self._send(404, json.dumps({"error": {"message": f"no route {self.path}"}}).encode())
            else:
                self._send(200, json.dumps(state.model_list(self.path)).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = Asked(self.path, dict(self.headers), json.loads(body), time.monotonic())
            prompt = prompt_of(asked.payload)
            ids = asked.payload.get("prompt")
            spelled = "".join(map(state.decode, ids)) if isinstance(ids, list) else prompt
            probe = prompt in PROBES or spelled in PROBES
            with state.lock:
                (state.probes if probe else state.asked).append(asked)
                faults = state.probe_faults if probe else state.faults
                fault = None if probe else state.fault_of(prompt)
                fault = fault or (faults.popleft() if faults else None)
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
                body = fault.body or json.dumps(state.error(fault)).encode()
                self._send(fault.status, body, fault.headers)
            elif fault and fault.body is not None:
                self._send(200, fault.body, fault.headers)
            elif response := state.respond(self.path.partition("?")[0], payload):
                if fault and fault.distort:
                    fault.distort(response["choices"][0]["logprobs"])
                self._send(200, json.dumps(response).encode())
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
    if payload.get("logprobs") and state.alternatives:
        listed = _alternatives(state, payload["messages"][-1]["content"], payload["top_logprobs"])
        top = [{"token": token, "logprob": value, "bytes": None} for token, value in listed.items()]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    return _response(state, "chat.completion", [choice], payload)


def _response(state: FakeServer, kind: str, choices: list[dict[str, Any]], payload: dict[str, Any]) -> dict[str, Any]:
    version = {"system_fingerprint": state.system_fingerprint} if state.system_fingerprint else {}
    usage = {} if state.usage is None else {"usage": state.usage}
    if state.continues:
        usage = {
            "usage": {"prompt_tokens": 20 - 3 * bool(payload.get("continue_final_message")), "completion_tokens": 1}
        }
    return {"object": kind, "choices": choices, "model": state.model_version, **version, **usage}


def _alternatives(state: FakeServer, prompt: str, number: int) -> dict[str, float]:
    """The likeliest first tokens after a prompt: labels and words, in an order that the prompt decides."""
    tokens = ["A", " B", "C", "D", *(f"word{n}" for n in range(number))]
    ranked = sorted(tokens, key=lambda token: -(logprob(prompt, token) or 0))[: min(number, state.alternatives)]
    return {token: -1.0 - place for place, token in enumerate(ranked)}


def _completions(state: FakeServer, payload: dict[str, Any]) -> dict[str, Any]:
    prompts = payload["prompt"]
    several = isinstance(prompts, list) and prompts and isinstance(prompts[0], list | str)
    choices = []
    for index, prompt in enumerate(prompts if several else [prompts]):
        shown = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
        text, reason = _written(state, shown, payload)
        choice: dict[str, Any] = {"index": index, "text": text, "finish_reason": reason}
        forced = payload.get("vllm_xargs", {}).get("multiform_tokens") if state.forces else None
        if state.lists and "logprob_token_ids" in payload:
            choice["logprobs"] = _listed(prompt, payload["logprob_token_ids"])
        elif forced:
            choice["logprobs"] = _forced(prompt, forced)
        elif payload.get("logprobs") and (state.echoes and payload.get("echo")):
            choice["logprobs"] = _logprobs(state, prompt, text)
        elif payload.get("logprobs") and state.alternatives:
            listed = _alternatives(state, shown, payload["logprobs"])
            first, value = next(iter(listed.items()))
            tops = [{"token": token, "logprob": listed[token]} for token in listed]
            content = [{"token": first, "logprob": value, "top_logprobs": tops}]
            choice["logprobs"] = (
                {"content": content}
                if state.chat_layout
                else {"tokens": [first], "token_logprobs": [value], "top_logprobs": [listed]}
            )
        choices.append(choice)
    return _response(state, "text_completion", choices, payload)


def _listed(prompt: list[int], tokens: list[int]) -> dict[str, Any]:
    """The log-probabilities of given tokens after a prompt; the first that is the likeliest is generated."""
    before = f"t{prompt[-1]}"
    best = next((token for token in tokens if is_best(before, f"t{token}")), 399)
    listed = {f"token_id:{token}": logprob(before, f"t{token}") for token in (best, *tokens)}
    return {"tokens": [f"token_id:{best}"], "token_logprobs": [listed[f"token_id:{best}"]], "top_logprobs": [listed]}


def _forced(prompt: list[int], tokens: list[int]) -> dict[str, Any]:
    """The log-probabilities of tokens that are generated because they are given."""
    pairs = list(pairwise(f"t{token}" for token in (prompt[-1], *tokens)))
    scores = [logprob(*pair) or 0.0 for pair in pairs]
    names = [f"token_id:{token}" for token in tokens]
    tops = [
        {name: score} if is_best(*pair) else {name: score, "token_id:399": score / 2}
        for name, score, pair in zip(names, scores, pairs, strict=True)
    ]
    return {"tokens": names, "token_logprobs": scores, "top_logprobs": tops}


def _logprobs(state: FakeServer, prompt: str | list[int], text: str) -> dict[str, Any]:
    tokens = words(prompt) if isinstance(prompt, str) else [f"t{token}" for token in prompt]
    if isinstance(prompt, str) and state.first_token is not None:
        tokens = [state.first_token, *tokens]
    written = words(text)[:1] or ["<end>"]
    tokens = [*tokens, *written]
    scores = [logprob(before, token) for before, token in zip([None, *tokens], tokens, strict=False)]
    tops: list[dict[str, float] | None] = [None]
    for before, token, score in zip(tokens, tokens[1:], scores[1:], strict=False):
        assert score is not None
        tops.append({token: score} if is_best(before, token) else {token: score, "<better>": score / 2})
    if not isinstance(prompt, str):
        tokens = [*map(state.decode, prompt), *written]
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    made = {"tokens": tokens, "token_logprobs": scores, "top_logprobs": tops, "text_offset": offsets}
    state.distort(made)
    return {key: value for key, value in made.items() if key not in state.omitted}
