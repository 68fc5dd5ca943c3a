"""LiteLLMChat: a model of any provider that LiteLLM knows, such as ``bedrock/...`` or ``mistral/...``.

LiteLLM writes requests in the provider's terms and gives responses in OpenAI's. It generates; log-likelihoods are left
to the interfaces that have them.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multiform.errors import ModelError, UsageError
from multiform.models.arguments import ArgumentRules, argument_names
from multiform.models.model import LOCAL_ARGUMENTS, Completions, Loglikelihoods, Model, no_loglikelihoods
from multiform.models.prices import Price, find_price
from multiform.models.servers.client import FIRST_WAIT, LONGEST_WAIT
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
from multiform.models.servers.secrets import HIDDEN, Redactor
from multiform.models.servers.server_model import at_least, counted_tokens, text_tokens
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Messages
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LoglikelihoodRequest,
    Request,
    RollingRequest,
)
from multiform.stopping import stop_requested

_RULES = ArgumentRules(renamed={"pretrained": "model", "base_url": "api_base"}, ignored=LOCAL_ARGUMENTS)
#: Statuses of errors that end the run: every further request would meet them.
_FATAL = (401, 403, 404)
_STOP_CHECK_SECONDS = 0.2
_EXTRA = "pip install 'multiform[litellm]'"


class LiteLLMChat(Model):
    """A chat model that LiteLLM calls.

    `model` is LiteLLM's name of it, with the provider. `api_base` and `api_key` go to LiteLLM, which otherwise reads
    the environment variables of the provider. `seed` is sent where the provider has one.
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
        self.num_concurrent = int(at_least(1, num_concurrent, "num_concurrent"))
        self.max_retries = int(at_least(0, max_retries, "max_retries"))
        self.timeout = at_least(0.001, timeout, "timeout")
        self._key = api_key
        self._redact = Redactor([api_key or "", *(v for n, v in os.environ.items() if n.endswith(("_KEY", "_TOKEN")))])
        self._tokens = Counter[str]()
        self._lock = threading.Lock()

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
            raise UsageError(self._clean(error), where="--model litellm", hint="give PROVIDER/MODEL") from error
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
        arguments: dict[str, Any] = {"model": self.name, "seed": self.seed, "num_concurrent": self.num_concurrent}
        arguments |= {"api_base": self.api_base} if self.api_base else {}
        arguments |= {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {"model_args": {**arguments, **({"api_key": HIDDEN} if self._key else {})}}

    def server_tokens(self) -> dict[str, int]:
        with self._lock:
            return dict(self._tokens)

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
        """The completions, as they arrive; after a requested stop, those of requests in flight."""
        waiting = iter(enumerate(requests))
        flying: dict[Future[Completion | FailedRequest], int] = {}
        with ThreadPoolExecutor(self.num_concurrent) as pool:
            while True:
                while len(flying) < self.num_concurrent and not stop_requested():
                    if (entry := next(waiting, None)) is None:
                        break
                    flying[pool.submit(self._ask, entry[1])] = entry[0]
                if not flying:
                    return
                done, _ = wait(flying, timeout=_STOP_CHECK_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    yield flying.pop(future), future.result()

    def _ask(self, request: GenerationRequest) -> Completion | FailedRequest:
        """Ask once, and again where an error may pass."""
        payload = self.payload(request)
        for attempt in range(self.max_retries + 1):
            try:
                response = self._library.completion(
                    **payload,
                    api_base=self.api_base,
                    api_key=self._key,
                    timeout=self.timeout,
                    num_retries=0,
                    max_retries=0,
                ).model_dump()
                with self._lock:
                    self._tokens.update(counted_tokens(response))
                return read_chat(request, response, None)
            except ModelError as error:  # malformed
                problem, may_pass = error.what, True
            except Exception as error:  # LiteLLM's errors have no base of their own
                status = getattr(error, "status_code", None) or 500
                problem = self._clean(error)
                if status in _FATAL:
                    raise ModelError(
                        problem, where=self.name, hint="check the model's name and the provider's key"
                    ) from error
                may_pass = status in (408, 409, 429) or status >= 500
            if not may_pass or attempt == self.max_retries or stop_requested():
                return FailedRequest(reason=problem, retried=attempt)
            time.sleep(min(FIRST_WAIT * 2**attempt, LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _clean(self, error: Exception) -> str:
        text = str(error).partition("Traceback (most recent call last)")[0]
        return " ".join(self._redact(text).split())[:500]

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        raise no_loglikelihoods(self.name, "this form")

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> list[dict[str, Any]]:
        """The messages, which the provider gets as such."""
        return [dict(message) for message in messages]
