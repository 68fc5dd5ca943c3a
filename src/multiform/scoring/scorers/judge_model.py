"""The model of the scorer `ai_judge`: looked up by name when a task is read, loaded for the first request."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from multiform.errors import ConfigError, ModelError, MultiformError, UsageError, nearest, reason
from multiform.models import Model, models
from multiform.requests import FailedRequest, GenerationRequest

logger = logging.getLogger("multiform")

#: Seconds between two lines that say how far the judge is.
_PAUSE = 5.0
#: The registered model that asks a server, for a name that is not registered.
SERVED = "openai-chat"
#: The registered models of providers whose models are known by the beginning of their names.
_PROVIDERS = {"claude-": "anthropic", "gemini-": "gemini"}
#: Arguments that must not get into results files; nor may headers, any of which can be a key.
_SECRETS = ("api_key", "auth_token")
_WHERE = "scorer.kwargs"


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A registered model and its arguments, as JSON."""

    model: str
    arguments: str = "{}"

    @classmethod
    def of(cls, model: str, arguments: Mapping[str, Any]) -> JudgeSpec:
        """The specification of a registered model with these arguments."""
        return cls(model, json.dumps(dict(arguments), sort_keys=True, default=str))


def check_judge(name: str, arguments: Mapping[str, Any]) -> JudgeSpec:
    """Find the model that a task names, without loading it.

    The arguments are part of the results file, so secrets among them are refused.
    """
    for key in (*arguments, *(f"the header {name}" for name in arguments.get("headers") or ())):
        if key.lower() in _SECRETS or key.startswith("the header "):
            message = f"{key} would be written into the results"
            raise ConfigError(message, where=f"{_WHERE}.model_args", hint="set $OPENAI_API_KEY, or name an api_key_env")
    if re.search(r"//[^/]*@|\?", str(arguments.get("base_url") or "")):
        message = "the user, password or parameters of base_url would be written into the results"
        raise ConfigError(message, where=f"{_WHERE}.base_url", hint="set $OPENAI_API_KEY, or $OPENAI_BASE_URL")
    if name in models:
        return JudgeSpec.of(name, arguments)
    if not arguments.get("base_url") and not os.environ.get("OPENAI_BASE_URL"):
        provider = next((model for start, model in _PROVIDERS.items() if name.startswith(start)), None)
        if provider is not None:
            return JudgeSpec.of(provider, {**arguments, "model": name})
        hint = f"{nearest(str(name), models, listed='models')}, or give the base_url of the server that runs it"
        raise ConfigError(f"unknown model '{name}'", where=f"{_WHERE}.judge_model", hint=hint)
    return JudgeSpec.of(SERVED, {**arguments, "model": name})


def ask(spec: JudgeSpec, requests: Sequence[GenerationRequest]) -> dict[GenerationRequest, str]:
    """The judge's response to each request; equal requests are sent once."""
    distinct = list(dict.fromkeys(requests))
    if not distinct:
        return {}
    judge = _loaded(spec)
    sent = [
        GenerationRequest.of(_chat(judge, request.context), request.gen_kwargs, request.sample) for request in distinct
    ]
    responses: dict[GenerationRequest, str] = {}
    started = logged = time.monotonic()
    logger.info("the judge '%s' runs %d requests", judge.name, len(sent))
    try:
        for position, completion in judge.generate(sent):
            if isinstance(completion, FailedRequest):
                raise ModelError(f"a request failed: {completion.reason}")
            responses[distinct[position]] = completion.text
            now = time.monotonic()
            if now - logged >= _PAUSE or len(responses) == len(sent):
                logged, spent = now, now - started
                seconds_left = spent / len(responses) * (len(sent) - len(responses))
                logger.info(
                    "judged %d of %d, %.0f s, about %.0f s left", len(responses), len(sent), spent, seconds_left
                )
    except MultiformError as error:
        raise error.at("judge") from error
    except Exception as error:  # a model may fail in any way
        message = f"model '{judge.name}' failed: {reason(error)}"
        raise ModelError(message, where="judge") from error
    if len(responses) < len(distinct):
        message = (
            f"model '{judge.name}' left {len(distinct) - len(responses)} of {len(distinct)} requests without a response"
        )
        raise ModelError(message, where="judge")
    return responses


@lru_cache(maxsize=1)  # several forms of a run have the same judge
def _loaded(spec: JudgeSpec) -> Model:
    try:
        return models.get(spec.model)(**json.loads(spec.arguments))
    except ImportError as error:
        message = f"model '{spec.model}' needs a package that is not installed: {error}"
        raise UsageError(message, where=f"{_WHERE}.judge_model", hint="pip install 'multiform[hf]'") from error
    except MultiformError as error:
        raise error.at("judge") from error


def _chat(judge: Model, text: str) -> str:
    """The text as a user's message in the model's chat template, if it has one."""
    try:
        return judge.apply_chat_template([{"role": "user", "content": text}])
    except ModelError:  # a model without a chat template reads plain text
        return text
