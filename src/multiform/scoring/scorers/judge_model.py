"""The model of the scorer `ai_judge`: chosen by the user, or by the name that a task asks for; loaded when needed.

A task file may be a stranger's. It never chooses where requests and keys are sent, which variable of the environment
is a key, or whose code is run: it may name a model, and the rest comes from the user (`--judge_model`,
`--judge_args`) or is that of the model's provider.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, ModelError, MultiformError, UsageError, nearest, reason
from multiform.models import Model, models
from multiform.models.servers.server_model import ServerModel
from multiform.prompts.prompt import Content
from multiform.requests import FailedRequest, GenerationRequest

logger = logging.getLogger("multiform")

#: Seconds between two lines that say how far the judge is.
_PAUSE = 5.0
#: The registered model that asks a server, for a name that is not registered.
SERVED = "openai-chat"
#: The registered models that ask the provider of a model, by the names that it gives its models.
_PROVIDERS = {
    "anthropic": re.compile(r"claude-[\w.:-]+"),
    "openai-chat": re.compile(r"(?:gpt-|chatgpt-|o\d)[\w.:-]*"),
    "gemini": re.compile(r"gemini-[\w.:-]+"),
}
#: Arguments that must not get into results files; nor may headers, any of which can be a key.
_SECRETS = ("api_key", "auth_token", "headers", "header")
_WHERE = "scorer.kwargs"


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A registered model and its arguments, as JSON."""

    model: str
    arguments: str = field(default="{}", repr=False)

    @classmethod
    def of(cls, model: str, arguments: Mapping[str, Any]) -> JudgeSpec:
        """The specification of a registered model with these arguments."""
        return cls(model, json.dumps(dict(arguments), sort_keys=True, default=str))


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge that the user chose: a model, its arguments, or both."""

    model: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model: str | None, arguments: str | Mapping[str, Any] | None) -> JudgeChoice:
        """The choice of `--judge_model` and `--judge_args`."""
        return cls(model, parse_arguments(arguments, where="--judge_args"))

    def __bool__(self) -> bool:
        return self.model is not None or bool(self.arguments)

    def described(self) -> dict[str, Any]:
        """The choice as results have it: without keys, and without what an address may hold beside the server."""
        hidden = {key: "***" for key in self.arguments if key.lower() in _SECRETS}
        address = re.sub(r"//[^/]*@|[?#].*", lambda match: "//" if match[0][0] == "/" else "", str(self.base_url))
        shown = {"base_url": address} if self.base_url else {}
        chosen = {"judge_model": self.model, "judge_args": {**self.arguments, **shown, **hidden}}
        return {name: value for name, value in chosen.items() if value}

    @property
    def base_url(self) -> Any:
        return self.arguments.get("base_url")


_choice: ContextVar[JudgeChoice] = ContextVar("judge", default=JudgeChoice())  # noqa: B039  (it is immutable)


@contextmanager
def judging_by(choice: JudgeChoice) -> Iterator[None]:
    """Have the judge that the user chose score what tasks give to a judge."""
    token = _choice.set(choice)
    try:
        yield
    finally:
        _choice.reset(token)


def check_wish(arguments: Mapping[str, Any]) -> None:
    """Refuse secrets among what a task asks for: its configuration is part of the results file."""
    for key in (*arguments, *(f"the header {name}" for name in arguments.get("headers") or ())):
        if key.lower() in ("api_key", "auth_token") or key.startswith("the header "):
            message = f"{key} would be written into the results"
            raise ConfigError(message, where=f"{_WHERE}.model_args", hint="give it in --judge_args")
    if re.search(r"//[^/]*@|\?", str(arguments.get("base_url") or "")):
        message = "the user, password or parameters of base_url would be written into the results"
        raise ConfigError(message, where=f"{_WHERE}.base_url", hint="give it in --judge_args")


def choose_judge(name: str | None, arguments: Mapping[str, Any]) -> JudgeSpec:
    """The model that judges, where a task asks for this one with these arguments; it is not loaded.

    The arguments of a task are not used: the user may repeat them.
    """
    choice = _choice.get()
    if arguments and not choice:
        listed = ", ".join(sorted(arguments))
        message = f"the task says where its judge is or how it is loaded ({listed}), which is up to the user"
        hint = "look at it; if you agree, give the same in --judge_model and --judge_args, or in evaluate()"
        raise ConfigError(message, where=_WHERE, hint=hint)
    if arguments:
        logger.info("the judge is that of --judge_model and --judge_args, not that of the task")
    keys = [key for key in choice.arguments if key.lower() in (*_SECRETS, "api_key_env")]
    if keys and not (choice.model or choice.base_url):
        message = f"{keys[0]} is a key for a judge that the task names, which would choose where the key is sent"
        raise ConfigError(message, where="--judge_args", hint="name the judge, too: --judge_model, or base_url=...")
    name = choice.model or name
    if not name:
        raise ConfigError("no judge is named", where=f"{_WHERE}.judge_model", hint="name one here or in --judge_model")
    if name in models:
        return JudgeSpec.of(name, choice.arguments)
    provider = next((model for model, names in _PROVIDERS.items() if names.fullmatch(name)), None)
    if provider is None and not choice.base_url and not os.environ.get("OPENAI_BASE_URL"):
        hint = f"{nearest(name, models, listed='models')}, or give the server that runs it: --judge_args base_url=..."
        where = "--judge_model" if choice.model else f"{_WHERE}.judge_model"
        raise ConfigError(f"unknown model '{name}'", where=where, hint=hint)
    return JudgeSpec.of(SERVED if choice.base_url else provider or SERVED, {**choice.arguments, "model": name})


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
    arguments = json.loads(spec.arguments)
    try:
        judge = models.get(spec.model)(**arguments)
    except ImportError as error:
        message = f"model '{spec.model}' needs a package that is not installed: {error}"
        raise UsageError(message, where=f"{_WHERE}.judge_model", hint="pip install 'multiform[hf]'") from error
    except TypeError as error:
        raise UsageError(reason(error), where="--judge_args", hint=f"see what model '{spec.model}' takes") from error
    except MultiformError as error:
        raise error.at("judge") from error
    if isinstance(judge, ServerModel):
        key = "--judge_args" if arguments.get("api_key") else f"${arguments.get('api_key_env', judge.key_env)}"
        logger.info("the judge '%s' is asked at %s, with the key of %s", judge.name, judge.client.shown, key)
    return judge


def _chat(judge: Model, text: str) -> Content:
    """The text as a user's message in the model's chat template, if it has one."""
    try:
        return judge.apply_chat_template([{"role": "user", "content": text}])
    except ModelError:  # a model without a chat template reads plain text
        return text
