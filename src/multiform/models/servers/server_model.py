"""ServerModel: what models on a server share, whatever protocol it speaks; and ChatServer, for those that chat.

The fingerprint of a server tells one model from another one behind the same address and name.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
import urllib.parse
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import httpx

from multiform.errors import UsageError, excerpt
from multiform.hashing import short_hash
from multiform.models.arguments import ArgumentRules, argument_names, take_fields
from multiform.models.model import LOCAL_ARGUMENTS, Completions, Loglikelihoods, Model, no_loglikelihoods
from multiform.models.prices import Price, find_price
from multiform.models.servers.batch_client import BatchClient
from multiform.models.servers.batch_interfaces import BatchInterface
from multiform.models.servers.batch_ledger import Ledger
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import mappings_in
from multiform.models.servers.protocol import PREFILL, Thinking, counted_tokens, move_prefill, token_limit
from multiform.models.servers.secrets import HIDDEN, header_secrets, header_value, url_secrets, without_userinfo
from multiform.prompts.prompt import Messages
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest, Request, RollingRequest

logger = logging.getLogger("multiform")

#: The most seconds, requests or tokens of an argument.
_MOST = 1e9
#: The attempts to list the models of a server.
_LIST_ATTEMPTS = 3
#: A small request whose completion, a part of a server's fingerprint, stays the same as long as its model does.
PROBE = "Name three colours, then count from one to five."
PROBE_REQUEST = GenerationRequest.of(PROBE, {"max_gen_toks": 16})
#: The seed of requests, as long as the user gives none.
SEED = 1234
#: A chat whose answer is begun, which shows whether a server continues answers.
BEGUN = ({"role": "user", "content": PROBE}, {"role": "assistant", "content": "Red,"})
#: The fields of a server's model entry that stay the same as long as the model does.
_LASTING = (
    *("id", "name", "root", "parent", "owned_by", "version", "created", "created_at", "display_name", "displayName"),
    *("max_model_len", "context_length", "inputTokenLimit", "meta", "digest"),
)
#: Where a response says which model wrote it, by key, and what results call that.
_VERSION_KEYS = {
    "model": "model_version",
    "modelVersion": "model_version",
    "system_fingerprint": "system_fingerprint",
}
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
#: Seconds. Many servers report the current time, or that of their start, as a model's date.
_OLD = 24 * 3600.0
#: The bytes of a token, about: fewer in languages with other letters, whose characters have more bytes.
_TOKEN_BYTES = 4
#: The tokens of roles and separators in a chat, about.
_CHAT_TOKENS = 8


class ServerModel(Model):
    """A model that a server runs.

    `base_url` is the server's ``.../v1`` or the endpoint itself; by default that of the environment variable
    `url_env`, or `default_url`. The key comes from the environment variable `api_key_env` unless `api_key` is
    given. At most `num_concurrent` requests are in flight, fewer while the server is overloaded. `timeout`
    is for one attempt and `deadline` for all attempts at one request, in seconds; `max_retries` is how often a
    request is retried while the server responds to others. With ``fingerprint=false``, stored responses are known by
    the server's URL and the model's name alone, not by what the server says about itself.
    """

    handles_stop = True

    #: The arguments of lm-eval's server models.
    rules: ClassVar[ArgumentRules] = ArgumentRules.of("server", ignored=LOCAL_ARGUMENTS)
    kind: ClassVar[str]
    default_url: ClassVar[str]
    url_env: ClassVar[str]
    key_env: ClassVar[str]
    #: The path of a server whose URL has none.
    root_path: ClassVar[str] = ""
    #: Ends of a URL that name an endpoint.
    endpoints: ClassVar[Collection[str]]

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        num_concurrent: int = 8,
        max_retries: int = 5,
        timeout: float = 300,
        deadline: float = 900,
        headers: Mapping[str, str] | None = None,
        fingerprint: bool = True,
    ) -> None:
        if not model:
            hint = f"name it: --model_args model=NAME,base_url={self.default_url}"
            raise UsageError(f"the model '{self.kind}' needs the argument 'model'", hint=hint)
        self.name = str(model)
        self._tokens = Counter[str]()
        self._versions: dict[str, Counter[str]] = {}
        self._counts_lock = threading.Lock()
        self.fingerprinted = bool(fingerprint)
        root = server_root(base_url or os.environ.get(self.url_env) or self.default_url, self.endpoints, self.root_path)
        self.root, basic = without_userinfo(root)
        key = header_value(api_key or os.environ.get(api_key_env or self.key_env, ""), "the key")
        custom_headers = _read_headers(headers)
        self.client = self._make_client(
            headers={**self.auth(key), **basic, **custom_headers},
            secrets=[key, *url_secrets(root), *header_secrets([*basic.values(), *custom_headers.values()])],
            timeout=at_least(0.001, timeout, "timeout"),
            deadline=at_least(0, deadline, "deadline", most=math.inf),
            max_retries=int(at_least(0, max_retries, "max_retries")),
            num_concurrent=int(at_least(1, num_concurrent, "num_concurrent")),
            key_hint=f"set ${api_key_env or self.key_env}, or give api_key",
            notice=self._count,
        )
        #: What requests are sent with: one by one, or in batches.
        self.sender: Client | BatchClient = self.client
        self._arguments = {
            "model": self.name,
            "base_url": self.client.shown,
            **({"api_key": HIDDEN} if api_key else {}),
            **({"headers": dict.fromkeys(custom_headers, HIDDEN)} if custom_headers else {}),
            **{name: getattr(self.client, name) for name in ("num_concurrent", "max_retries", "timeout", "deadline")},
        }

    def _make_client(self, **options: Any) -> Client:
        """What sends requests one by one."""
        return Client(url=self._url(self.path()), probe=self.payload(PROBE_REQUEST), **options)

    @abstractmethod
    def path(self) -> str:
        """The path of the endpoint below the server's URL."""

    @abstractmethod
    def models_path(self) -> str:
        """The path at which the server describes its models, or this one."""

    @abstractmethod
    def auth(self, key: str) -> dict[str, str]:
        """The headers that every request has, with the key where there is one."""

    @abstractmethod
    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        """A generation in the terms of the protocol."""

    @abstractmethod
    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        """The completion in a response; a ModelError where the response is malformed."""

    def settings(self) -> dict[str, Any]:
        """The arguments that change outputs, beside the server and the model."""
        return {}

    def local_files(self) -> dict[str, str]:
        """The fingerprints of files on this machine that outputs depend on."""
        return {}

    @cached_property
    def identity(self) -> str:  # type: ignore[override]
        """The server's address, the model's name, what changes outputs, and what the server says about itself."""
        settings = [f"{name}={value}" for name, value in self.settings().items()]
        settings += [f"{name}={content}" for name, content in self.local_files().items()]
        facts = [f"server={short_hash(self.server_facts)}"] if self.fingerprinted else []
        return " ".join([self.kind, self.client.shown, self.name, *settings, *facts])

    @cached_property
    def server_facts(self) -> dict[str, Any]:
        """What the server says about itself and the model, and how it completes a fixed prompt."""
        entry = self.client.single(
            None,
            lambda response: self.client.without_secrets(described_model(response, self.name)),
            url=self._url(self.models_path()),
            attempts=_LIST_ATTEMPTS,  # some servers fail at this and nothing else
        )

        def completion_facts(response: Any) -> dict[str, Any]:
            facts = {"probe": self.completion(PROBE_REQUEST, response).text, **model_version(response)}
            return self.client.without_secrets(facts)

        completed = self.client.single(self.payload(PROBE_REQUEST), completion_facts)
        self.client.probe = None if completed is None else self.payload(PROBE_REQUEST)
        return {"model": entry or {}, **(completed or {})}

    def info(self) -> dict[str, Any]:
        """The arguments without secrets, in place of the original ones, and what the server says about itself."""
        server = {"server": self.server_facts} if self.fingerprinted else {}
        with self._counts_lock:
            changed = {key: dict(counts) for key, counts in self._versions.items() if len(counts) > 1}
        versions = {"server_versions": self.client.without_secrets(changed)} if changed else {}
        return {"model_args": {**self._arguments, **self.settings()}, **server, **versions}

    def server_tokens(self) -> dict[str, int]:
        """Those that the responses count, those to probes included."""
        return dict(self._tokens)

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        """By the bytes of prompts; labels after one prompt are one request where the server does not echo prompts."""
        generations = [request for request in requests if isinstance(request, GenerationRequest)]
        texts = [request.prompt.text for request in generations]
        texts += dict.fromkeys(r.prompt.text for r in requests if isinstance(r, LoglikelihoodRequest))
        texts += [request.text for request in requests if isinstance(request, RollingRequest)]
        prompt = sum(len(text.encode("utf-8", "replace")) // _TOKEN_BYTES + _CHAT_TOKENS for text in texts)
        written = sum(token_limit(request) for request in generations) + len(texts) - len(generations)
        return {"prompt": prompt, "completion": written}

    def price(self, file: Path | None = None) -> Price | None:
        price = find_price(self.name.removeprefix("models/"), str(self.root).rstrip("/"), file)
        return Price(price.prompt / 2, price.completion / 2) if price is not None and self.batch else price

    def _count(self, response: Any) -> None:
        """Count the tokens and the version of a response."""
        with self._counts_lock:
            self._tokens.update(counted_tokens(response))
        for key, value in model_version(response).items():
            with self._counts_lock:
                counts = self._versions.setdefault(key, Counter())
                counts[value] += 1
                has_changed = counts[value] == 1 and len(counts) == 2
                values = dict.fromkeys(counts)
            if has_changed:
                shown = " and ".join(map(repr, self.client.without_secrets(values)))
                logger.warning("%s: the server's %s changed: %s", self.client.shown, key, shown)

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        return self.sender.ask(requests, self.payload, self.completion)

    def _url(self, path: str) -> httpx.URL:
        # Of the name of a model, for one: httpx quotes all other characters itself.
        quoted = re.sub(r"[?#\x00-\x1f\x7f]", lambda match: urllib.parse.quote(match[0]), path)
        return self.root.copy_with(path=f"{self.root.path.rstrip('/')}/{quoted}")


class ChatServer(ServerModel):
    """A chat model on a server, which generates and gives no log-likelihoods.

    Without a chat template the prompt is one message of the user. The fields of `Thinking` are arguments, where the
    protocol has words for them. `seed` is sent with every request; ``seed=none`` leaves it out. With `batch`, requests
    go through the server's batch interface, at most `batch_requests` at once.
    """

    scores = False
    continues_texts = False
    rules = ArgumentRules.of("server", "chat", ignored=LOCAL_ARGUMENTS)
    #: Whether requests have a seed.
    has_seed: ClassVar[bool] = True
    #: The arguments about thinking that the protocol has words for.
    thinking_arguments: ClassVar[Collection[str]] = ()
    #: The batch interface of the protocol, if it has one.
    batches: ClassVar[type[BatchInterface] | None] = None

    def __init__(
        self,
        *,
        seed: int | None = SEED,
        batch: bool = False,
        batch_requests: int | None = None,
        prefill: str | None = None,
        **arguments: Any,
    ) -> None:
        if prefill not in (None, "continue", "text"):
            raise UsageError(f"prefill is {excerpt(prefill)}", where=self.kind, hint="give continue or text")
        self._given_prefill = prefill
        self.thinking = take_fields(Thinking, arguments)
        self.thinking.check(self.thinking_arguments, self.kind)
        self.seed = seed
        if not self.has_seed and seed != SEED:
            logger.info("the model argument 'seed' changes nothing: the interface has no seed")
        names = argument_names(type(self))
        more = get_type_hints(Thinking)
        super().__init__(**self.rules.resolve(arguments, names, suggestions=[*names, *more], where=self.kind))
        if not isinstance(batch, bool):
            raise UsageError(f"batch is true or false, not {excerpt(batch)}", hint="write batch=true")
        self.batch = batch
        if batch_requests is not None and not self.batch:
            raise UsageError("batch_requests needs batch", where=self.kind, hint="add batch=true")
        if not self.batch:
            return
        if self.batches is None:
            raise UsageError("there is no batch interface", where=self.kind, hint="leave batch out")
        most = None if batch_requests is None else int(at_least(1, batch_requests, "batch_requests"))
        endpoint = f"{self.kind} {self.client.shown} {self.name}"
        interface = self.batches(self.client, self._url, self.path())
        self.sender = BatchClient(self.client, interface, Ledger(endpoint), most)
        self._arguments |= {"batch": True, **({} if most is None else {"batch_requests": most})}

    def begin_run(self, *, fresh: bool, flush: Callable[[], bool]) -> None:
        if isinstance(self.sender, BatchClient):
            self.sender.begin_run(fresh=fresh, flush=flush)

    def settings(self) -> dict[str, Any]:
        seed = {"seed": self.seed} if self.has_seed else {}
        given = {} if self._given_prefill is None else {"prefill": self._given_prefill}
        return {**seed, **self.thinking.settings(), **given}

    def thinking_of(self, request: GenerationRequest) -> Thinking:
        """The arguments about thinking for a request, whose form may have a budget of its own."""
        budget = request.gen_kwargs.get("thinking_budget")
        if budget is None:
            return self.thinking
        thinking = replace(self.thinking, thinking_budget=budget, enable_thinking=None if budget else False)
        thinking.check(self.thinking_arguments, self.kind)
        return thinking

    def info(self) -> dict[str, Any]:
        words = {"continue": "continued", "text": "the last line of the user's message"}
        used = {"server_prefill": words[self.prefill]} if "prefill" in vars(self) else {}
        return {**super().info(), **used}

    @cached_property
    def prefill(self) -> str:
        """What becomes of an answer that the prompt begins: "continue" or "text"; the server is asked where needed."""
        if self._given_prefill is not None:
            return self._given_prefill
        if self.continues_answers():
            return "continue"
        message = "%s: the server does not continue an answer: its beginning is the last line of the user's message"
        logger.warning(message, self.name)
        return "text"

    def continues_answers(self) -> bool:
        """Whether the server continues a last message of the assistant, instead of answering it."""
        return False

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        tokens = super().estimate_tokens(requests)
        generations = [request for request in requests if isinstance(request, GenerationRequest)]
        thoughts = sum(self.thinking_of(request).budget or 0 for request in generations)
        return {**tokens, "completion": tokens["completion"] + thoughts}

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> list[dict[str, Any]]:
        """The messages, which the server gets as such and writes as one prompt."""
        if add_generation_prompt or messages[-1]["role"] != "assistant":
            return [dict(message) for message in messages]
        if self.prefill == "text":
            return move_prefill(messages)
        return [*(dict(message) for message in messages[:-1]), {**messages[-1], PREFILL: True}]


def _read_headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    if headers is not None and not isinstance(headers, Mapping):
        raise UsageError("headers are not names with values", hint='give e.g. {"headers": {"X-Team": "evals"}}')
    for name in headers or ():
        if not _HEADER_NAME.fullmatch(str(name)):
            raise UsageError(f"{excerpt(name)} is not the name of a header", hint="give a name such as X-Team")
    return {str(name): header_value(value, f"the header {name}") for name, value in (headers or {}).items()}


def server_root(base_url: str, endpoints: Collection[str], root_path: str) -> httpx.URL:
    """The URL of the server, from that or the URL of one of its endpoints.

    >>> str(server_root("http://localhost/v1/chat/completions", ["/chat/completions"], ""))
    'http://localhost/v1'
    >>> str(server_root("https://api.anthropic.com", [], "/v1"))
    'https://api.anthropic.com/v1'
    """
    hint = "give e.g. base_url=http://localhost:8000/v1"
    try:
        url = httpx.URL(base_url.strip())
        url.host.encode("idna")  # as a connection does
    except (httpx.InvalidURL, UnicodeError, TypeError, AttributeError) as error:
        raise UsageError("base_url is no URL", hint=hint) from error
    if url.scheme not in ("http", "https") or not url.host:
        shown = f"{url.scheme}://{url.host}" if url.scheme else url.path  # without passwords and keys
        raise UsageError(f"base_url {excerpt(shown)} is not an http or https URL", hint=hint)
    root = url.path.rstrip("/")
    for known in endpoints:
        root = root.removesuffix(known)
    return url.copy_with(path=root or root_path or "/")


def at_least(least: float, value: Any, name: str, *, most: float = _MOST) -> float:
    """The number that an argument is; a UsageError where it is none, too small, or more than anything can take."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not least <= number <= most:
        raise UsageError(f"{name} is {excerpt(value)}", hint=f"give a number of {least:g} or more")
    return number


def model_version(response: Any) -> dict[str, str]:
    """What a response says about the model that wrote it."""
    said = response if isinstance(response, Mapping) else {}
    return {name: said[key] for key, name in _VERSION_KEYS.items() if isinstance(said.get(key), str)}


def described_model(response: Any, name: str) -> dict[str, Any]:
    """The lasting fields of the model called `name`, in a server's list of models or its entry of one model.

    >>> listed = {"data": [{"id": "a", "root": "/models/a", "created": 1700000000, "permission": [{"id": "x9"}]}]}
    >>> described_model(listed, "a")
    {'id': 'a', 'root': '/models/a', 'created': 1700000000}
    """
    if not isinstance(response, Mapping):
        return {}
    entries = [*mappings_in(response, "data"), *mappings_in(response, "models"), response]
    names = (name, f"models/{name}")
    entry = next((entry for entry in entries if any(entry.get(key) in names for key in ("id", "name", "model"))), {})
    lasting = {key: entry[key] for key in _LASTING if entry.get(key) is not None}
    created = lasting.get("created")
    if isinstance(created, int | float) and created > time.time() - _OLD:
        del lasting["created"]
    return lasting
