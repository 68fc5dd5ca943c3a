"""LiteLLMChat: a model of any provider that LiteLLM knows, such as ``bedrock/...`` or ``mistral/...``.

LiteLLM writes requests in the provider's terms and gives responses in OpenAI's. It generates; log-likelihoods are left
to the interfaces that have them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from multiform.errors import ModelError, UsageError
from multiform.models.arguments import ArgumentRules
from multiform.models.model import LOCAL_ARGUMENTS, Completions
from multiform.models.prices import Price, find_price
from multiform.models.servers import protocol
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import response_failure
from multiform.models.servers.openai_chat import MAX_STOPS, message_part, read_chat
from multiform.models.servers.server_model import PROBE_REQUEST, ChatServer
from multiform.prompts.media import Kind
from multiform.requests import Completion, GenerationRequest

_EXTRA = "pip install 'multiform[litellm]'"


class _LiteLLMClient(Client):
    """Sends requests by LiteLLM; `complete` is its function of that name."""

    def __init__(self, complete: Callable[..., Any], name: str, **options: Any) -> None:
        super().__init__(url=httpx.URL(LiteLLMChat.default_url), **options)
        self._complete, self.shown = complete, name
        self._hints = dict.fromkeys((401, 403, 404), "check the model's name and the provider's key")

    def _exchange(self, http: Any, content: bytes | None, url: httpx.URL | None = None) -> Any:
        try:
            response = self._complete(**json.loads(content or b"{}")).model_dump()
        except Exception as error:  # LiteLLM's errors have no base of their own
            self._is_there = True
            message = str(error).partition("Traceback (most recent call last)")[0]
            raise response_failure(getattr(error, "status_code", None) or 500, message) from error
        self._is_there = self._has_responded = True
        self.notice(response)
        return response


class LiteLLMChat(ChatServer):
    """A chat model that LiteLLM calls.

    `model` is LiteLLM's name of it, with the provider. `base_url` or `api_base`, and `api_key`, go to LiteLLM, which
    otherwise reads the environment variables of the provider.
    """

    kind = "litellm"
    default_url = "http://litellm"
    url_env = key_env = ""
    endpoints = ()
    stored = True
    rules = ArgumentRules.of("server", "chat", "litellm", ignored=LOCAL_ARGUMENTS)
    thinking_arguments = ("reasoning_effort",)

    def __init__(self, *, base_url: str | None = None, api_base: str | None = None, **arguments: Any) -> None:
        if find_spec("litellm") is None:
            raise UsageError("the package litellm is not installed", where="--model litellm", hint=_EXTRA)
        if not arguments.get("model") and not arguments.get("pretrained"):
            hint = "name it with its provider: --model_args model=mistral/mistral-small-latest"
            raise UsageError("the model 'litellm' needs the argument 'model'", hint=hint)
        self.api_base = base_url or api_base
        self._key: str | None = None
        super().__init__(base_url=self.api_base, **arguments)
        self.fingerprinted = False
        del self._arguments["base_url"]
        self._arguments |= {"api_base": self.api_base} if self.api_base else {}

    def _make_client(self, **options: Any) -> Client:
        own = [value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN"))]
        options["secrets"] = [*options["secrets"], *own]
        return _LiteLLMClient(self._complete, self.name, **options)

    def _complete(self, **payload: Any) -> Any:
        retries = {"num_retries": 0, "max_retries": 0}  # they are the client's
        options = {"api_base": self.api_base, "api_key": self._key, "timeout": self.client.timeout}
        return self._library.completion(**payload, **options, **retries)

    @cached_property
    def _library(self) -> Any:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import would ask the network for prices
        import litellm

        litellm.suppress_debug_info = True
        return litellm

    @cached_property
    def _provider_arguments(self) -> frozenset[str]:
        """The generation arguments that the provider takes; a UsageError where LiteLLM does not know the model."""
        message = f"LiteLLM does not know the provider of '{self.name}'"
        try:
            if supported := self._library.get_supported_openai_params(model=self.name):
                return frozenset(supported)
        except Exception as error:  # noqa: BLE001  (LiteLLM's errors have no base of their own)
            message = self.client.clean(str(error))
        raise UsageError(message, where="--model litellm", hint="give PROVIDER/MODEL")

    @cached_property
    def media(self) -> frozenset[Kind]:  # type: ignore[override]
        return frozenset[Kind]({"image"}) if self._library.supports_vision(model=self.name) else frozenset()

    @property
    def identity(self) -> str:  # type: ignore[override]
        base = f" {self.api_base}" if self.api_base else ""
        others = {name: value for name, value in self.settings().items() if name != "seed" and value}
        return f"litellm {self.name}{base} seed={self.seed}" + "".join(f" {k}={v}" for k, v in others.items())

    def price(self, file: Path | None = None) -> Price | None:
        """By the user's file, or by LiteLLM's own list."""
        if (known := find_price(self.name, self.api_base or "", file)) is not None:
            return known
        listed = (
            self._library.model_cost.get(self.name) or self._library.model_cost.get(self.name.partition("/")[2]) or {}
        )
        prices = [listed.get(f"{part}_cost_per_token") for part in ("input", "output")]
        if self.api_base or not all(isinstance(price, int | float) for price in prices):
            return None
        return Price(*(float(price) * 1e6 for price in prices if price is not None))

    def path(self) -> str:
        return ""

    def models_path(self) -> str:
        return ""

    def auth(self, key: str) -> dict[str, str]:
        """LiteLLM gets the key, and writes the headers."""
        self._key = key or None
        return {}

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        """The arguments of LiteLLM's `completion`; those that the provider lacks are left out or refused."""
        wanted = protocol.generation_arguments(request, self.seed, most_stops=MAX_STOPS)
        wanted = self.thinking_of(request).settings() | wanted
        sent = {name: value for name, value in wanted.items() if value not in (None, [])}
        known = self._provider_arguments
        known |= {"max_tokens"} if "max_completion_tokens" in known else set()
        # Completions are cut at stop strings on arrival, and a provider without seeds has none.
        if missing := [name for name in sent if name not in (*known, "stop", "seed")]:
            message = f"the provider of '{self.name}' takes no {', '.join(missing)}"
            raise ModelError(message, hint="choose another model, or leave it out of --gen_kwargs")
        messages, _ = protocol.sent_messages(request, message_part)  # a last message of the assistant is continued
        return {
            "model": self.name,
            "messages": messages,
            **{name: value for name, value in sent.items() if name in known},
        }

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        self.client.probe = self.payload(PROBE_REQUEST)  # only now, as it takes the library
        return super().generate(requests)

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        return read_chat(request, response, None)
