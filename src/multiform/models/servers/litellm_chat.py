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
from multiform.models.arguments import ArgumentRules, argument_names
from multiform.models.model import LOCAL_ARGUMENTS, Completions, Loglikelihoods, Model, no_loglikelihoods
from multiform.models.prices import Price, find_price
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import response_failure
from multiform.models.servers.openai_chat import message_part, read_chat
from multiform.models.servers.protocol import (
    other_arguments,
    request_messages,
    request_seed,
    stop_strings,
    temperature,
    token_limit,
    with_media,
)
from multiform.models.servers.secrets import HIDDEN
from multiform.models.servers.server_model import PROBE, PROBE_TOKENS, at_least, text_tokens
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Messages
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest

_RULES = ArgumentRules(renamed={"pretrained": "model", "base_url": "api_base"}, ignored=LOCAL_ARGUMENTS)
_EXTRA = "pip install 'multiform[litellm]'"


class _LiteLLMClient(Client):
    """Sends requests by LiteLLM; `complete` is its function of that name."""

    def __init__(self, complete: Callable[..., Any], name: str, **options: Any) -> None:
        super().__init__(url=httpx.URL("http://litellm"), **options)
        self._complete, self._name = complete, name
        self._hints = dict.fromkeys((401, 403, 404), "check the model's name and the provider's key")

    @property
    def shown(self) -> str:
        return self._name

    def _exchange(self, http: Any, content: bytes | None, url: httpx.URL | None = None) -> Any:
        try:
            response = self._complete(**json.loads(content or b"{}")).model_dump()
        except Exception as error:  # LiteLLM's errors have no base of their own
            self._is_there = True
            message = str(error).partition("Traceback (most recent call last)")[0]
            raise response_failure(getattr(error, "status_code", None) or 500, message) from error
        self._is_there = self._has_responded = True
        self.observe(response)
        return response


class LiteLLMChat(Model):
    """A chat model that LiteLLM calls.

    `model` is LiteLLM's name of it, with the provider. `api_base` and `api_key` go to LiteLLM, which otherwise reads
    the environment variables of the provider. `seed` is sent where the provider has one. The others are those of
    `ServerModel`.
    """

    kind = "litellm"
    stored = True
    scores = False
    handles_stop = True

    def __init__(
        self,
        *,
        model: str = "",
        api_base: str | None = None,
        api_key: str | None = None,
        num_concurrent: int = 8,
        max_retries: int = 5,
        timeout: float = 300,
        deadline: float = 900,
        seed: int | None = 1234,
        reasoning_effort: str | None = None,
        **arguments: Any,
    ) -> None:
        others = _RULES.resolve(arguments, argument_names(LiteLLMChat), where=self.kind)
        model, api_base = model or others.get("model", ""), api_base or others.get("api_base")
        if find_spec("litellm") is None:
            raise UsageError("the package litellm is not installed", where="--model litellm", hint=_EXTRA)
        if not model:
            hint = "name it with its provider: --model_args model=mistral/mistral-small-latest"
            raise UsageError("the model 'litellm' needs the argument 'model'", hint=hint)
        self.name = str(model)
        self.api_base, self.seed, self.reasoning_effort = api_base, seed, reasoning_effort
        self._key = api_key
        self.client = _LiteLLMClient(
            lambda **payload: self._library.completion(**payload, **self._call_options),
            self.name,
            secrets=[api_key or "", *(v for n, v in os.environ.items() if n.endswith(("_KEY", "_TOKEN")))],
            timeout=at_least(0.001, timeout, "timeout"),
            deadline=at_least(0, deadline, "deadline"),
            max_retries=int(at_least(0, max_retries, "max_retries")),
            num_concurrent=int(at_least(1, num_concurrent, "num_concurrent")),
        )

    @property
    def _call_options(self) -> dict[str, Any]:
        retries = {"num_retries": 0, "max_retries": 0}  # they are the client's
        return {"api_base": self.api_base, "api_key": self._key, "timeout": self.client.timeout, **retries}

    @cached_property
    def _library(self) -> Any:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import would ask the network for prices
        import litellm

        litellm.suppress_debug_info = True
        return litellm

    @cached_property
    def _provider_arguments(self) -> frozenset[str]:
        """The generation arguments that the provider takes; a UsageError where LiteLLM does not know the model."""
        try:
            supported = self._library.get_supported_openai_params(model=self.name)
        except Exception as error:
            raise UsageError(
                self.client.clean(str(error)), where="--model litellm", hint="give PROVIDER/MODEL"
            ) from error
        if not supported:
            message = f"LiteLLM does not know the provider of '{self.name}'"
            raise UsageError(message, where="--model litellm", hint="give PROVIDER/MODEL")
        return frozenset(supported)

    @cached_property
    def media(self) -> frozenset[Kind]:  # type: ignore[override]
        return frozenset[Kind]({"image"}) if self._library.supports_vision(model=self.name) else frozenset()

    @property
    def identity(self) -> str:  # type: ignore[override]
        base = f" {self.api_base}" if self.api_base else ""
        effort = f" reasoning_effort={self.reasoning_effort}" if self.reasoning_effort else ""
        return f"litellm {self.name}{base} seed={self.seed}{effort}"

    def info(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.name,
            "seed": self.seed,
            "num_concurrent": self.client.num_concurrent,
        }
        arguments |= {"api_base": self.api_base} if self.api_base else {}
        arguments |= {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {"model_args": {**arguments, **({"api_key": HIDDEN} if self._key else {})}}

    def server_tokens(self) -> dict[str, int]:
        return dict(self.client.tokens)

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        generations = [request for request in requests if isinstance(request, GenerationRequest)]
        prompt = sum(text_tokens(request.prompt.text) for request in generations)
        return {"prompt": prompt, "completion": sum(map(token_limit, generations))}

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

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        """The arguments of LiteLLM's `completion`; those that the provider lacks are left out or refused."""
        wanted: dict[str, Any] = {
            "max_tokens": token_limit(request),
            "temperature": temperature(request),
            "stop": stop_strings(request)[:4],
            "seed": request_seed(request, self.seed),
            "reasoning_effort": self.reasoning_effort,
            **other_arguments(request),
        }
        sent = {name: value for name, value in wanted.items() if value not in (None, [])}
        known = self._provider_arguments
        known |= {"max_tokens"} if "max_completion_tokens" in known else set()
        # Completions are cut at stop strings on arrival, and a provider without seeds has none.
        if missing := [name for name in sent if name not in (*known, "stop", "seed")]:
            message = f"the provider of '{self.name}' takes no {', '.join(missing)}"
            raise ModelError(message, hint="choose another model, or leave it out of --gen_kwargs")
        sent = {name: value for name, value in sent.items() if name in known}
        return {
            "model": self.name,
            "messages": with_media(request_messages(request), request.media, message_part),
            **sent,
        }

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        self.client.probe = self.payload(GenerationRequest.of(PROBE, {"max_gen_toks": PROBE_TOKENS}))
        return self.client.ask(requests, self.payload, lambda request, response: read_chat(request, response, None))

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> list[dict[str, Any]]:
        """The messages, which the provider gets as such."""
        return [dict(message) for message in messages]
