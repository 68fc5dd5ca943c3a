"""Judges: the models that grade the completions of other models, and the requests to them.

Judges are chosen by the user, or by the names that a task asks for. A task file may be a stranger's. It never chooses
where requests and keys are sent, which variable of the environment is a key, or whose code is run: it may name models,
and the rest comes from the user (`--judge_model`, `--judge_args`) or is that of the models' providers.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, ModelError, MultiformError, UsageError, excerpt, nearest, reason
from multiform.models import Model, models
from multiform.models.prices import Price
from multiform.models.registry import PROVIDERS, provider_of
from multiform.prompts.prompt import Content
from multiform.requests import Completion, FailedRequest, GenerationRequest, Output, Request

logger = logging.getLogger("multiform")

#: Seconds between two lines that say how far a judge is.
_PAUSE = 5.0
#: How many judges stay loaded, for further forms and runs.
_LOADED = 4
#: The registered model that asks a server, for a name that is not registered.
SERVED = "openai-chat"
#: Arguments that must not get into results files; nor may headers, any of which can be a key.
_SECRETS = ("api_key", "auth_token", "headers", "header")
WHERE = "scorer.kwargs.judge_model"


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A judge: what results call it, the registered model, and its arguments as JSON."""

    name: str
    model: str
    arguments: str = field(default="{}", repr=False)


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judges that the user chose: names of models, their arguments, or both.

    An argument whose key is the name of a judge and whose value is a mapping holds arguments of that judge alone: null
    takes one of all judges back, and `judge_model` is the registered model, where the name is not one.
    """

    names: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model: str | None, arguments: str | Mapping[str, Any] | None) -> JudgeChoice:
        """The choice of `--judge_model`, one name or several with commas, and `--judge_args`."""
        return cls(judge_names(model, "--judge_model"), parse_arguments(arguments, where="--judge_args"))

    def __bool__(self) -> bool:
        return bool(self.names or self.arguments)

    def to_dict(self) -> dict[str, Any]:
        """The choice as results have it: without keys, and without what an address may hold beside the server."""
        entry = {"judge_model": ",".join(self.names), "judge_args": _without_secrets(self.arguments)}
        return {name: value for name, value in entry.items() if value}

    def judges(self, names: Sequence[str]) -> list[JudgeSpec]:
        """The judges of a task that asks for those of these names, unless the user names others; none is loaded."""
        names = self.names or names
        if not names:
            raise ConfigError("no judge is named", where=WHERE, hint="name one here or in --judge_model")
        return [self._spec(name, names) for name in names]

    def _spec(self, name: str, all_names: Sequence[str]) -> JudgeSpec:
        # A task may call its judge as an argument is called, which must not take that argument away.
        own = {
            key: value
            for key, value in self.arguments.items()
            if key in all_names and isinstance(value, Mapping) and key.lower() not in _SECRETS
        }
        common = {key: value for key, value in self.arguments.items() if key not in own}
        alone = own.get(name, {})
        arguments = {key: value for key, value in {**common, **alone}.items() if key not in alone or value is not None}
        model = str(arguments.pop("judge_model", name))
        named = bool(self.names or alone)
        keys = [key for key in arguments if key.lower() in (*_SECRETS, "api_key_env")]
        base_url = arguments.get("base_url")
        if keys and not (named or base_url):
            message = f"{keys[0]} is a key for a judge that the task names, which would choose where the key is sent"
            raise ConfigError(message, where="--judge_args", hint="name the judge, too: --judge_model, or base_url=...")
        if model not in models:
            provider = provider_of(model)
            if provider is None and not base_url and not os.environ.get("OPENAI_BASE_URL"):
                hint = f"{nearest(model, models, listed='models')}, or give the server that runs it: "
                where = "--judge_model" if named else WHERE
                raise ConfigError(f"unknown model '{model}'", where=where, hint=f"{hint}--judge_args base_url=...")
            arguments["model"] = model
            model = SERVED if base_url else provider or SERVED
        return JudgeSpec(name, model, json.dumps(arguments, sort_keys=True, default=str))


def judge_names(spec: str | Sequence[str] | None, where: str) -> tuple[str, ...]:
    """The names of judges: of one, of several with commas between them, or of a list.

    >>> judge_names("gpt-5-mini, bundled", "--judge_model"), judge_names(None, "--judge_model")
    (('gpt-5-mini', 'bundled'), ())
    """
    listed = spec.split(",") if isinstance(spec, str) else [] if spec is None else list(spec)
    names = tuple(str(name).strip() for name in listed)
    if "" in names or len(set(names)) < len(names):
        message = f"'{excerpt(spec)}' names a judge twice" if "" not in names else "a name of a judge is empty"
        raise ConfigError(message, where=where, hint="separate different names by commas")
    return names


def _without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in arguments.items():
        if key.lower() in _SECRETS:
            shown[key] = "***"
        elif key == "base_url" and value:
            shown[key] = re.sub(r"//[^/]*@|[?#].*", lambda match: "//" if match[0][0] == "/" else "", str(value))
        else:
            shown[key] = _without_secrets(value) if isinstance(value, Mapping) else value
    return shown


class ResponseCache(Protocol):
    """Where the responses of judges are stored; the store of a run is one."""

    def known(self, identity: str, requests: Iterable[Request]) -> Mapping[Request, Output]:
        """The responses of a model that are stored."""

    def recording(self, identity: str) -> AbstractContextManager[Callable[[Request, Output], None]]:
        """A context manager that gives a function which stores responses of a model."""

    def flush(self) -> bool:
        """Wait until all responses so far are stored; false where they are not."""


@dataclass(slots=True)
class JudgeUsage:
    """What a judge was asked and what it took; `cost` is in dollars, and None where no price is known.

    Tokens are those of responses that were not cached, and None where the judge does not count them.
    """

    model: str = ""
    requests: int = 0
    cached: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    price: Price | None = None
    #: Verdicts that were refused or filtered, and others that could not be read.
    refused: int = 0
    unreadable: int = 0

    @property
    def cost(self) -> float | None:
        if self.price is None or self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.price.cost({"prompt": self.prompt_tokens, "completion": self.completion_tokens})

    def to_dict(self) -> dict[str, Any]:
        """The usage as results have it."""
        names = ("model", "requests", "cached", "refused", "unreadable", "prompt_tokens", "completion_tokens")
        counts = {name: getattr(self, name) for name in names}
        return counts if self.cost is None else {**counts, "dollars": self.cost}


@dataclass(slots=True, kw_only=True)
class Judging:
    """The judges of one run: the user's choice, where their responses are cached, and what they took."""

    choice: JudgeChoice = field(default_factory=JudgeChoice)
    cache: ResponseCache | None = None
    #: Whether the user named the cache, so that it also has responses of models that are not stored by default.
    caches_all: bool = False
    #: Whether cached responses are requested again.
    fresh: bool = False
    #: A file with prices of models whose price is not known.
    prices: str | Path | None = None
    usage: dict[str, JudgeUsage] = field(default_factory=dict)

    def ask(
        self, spec: JudgeSpec, requests: Sequence[GenerationRequest], schema: Mapping[str, Any] | None = None
    ) -> dict[GenerationRequest, Completion]:
        """The judge's response to each request; equal requests are sent once, and cached ones not at all.

        With a `schema`, servers that can constrain completions to JSON get it.
        """
        if not requests:
            return {}
        judge = _load_judge(spec)
        price = judge.price(None if self.prices is None else Path(self.prices))
        usage = self.usage.setdefault(spec.name, JudgeUsage(model=judge.name, price=price))
        options = _schema_options(judge, schema)
        sent: dict[GenerationRequest, GenerationRequest] = {}
        for request in dict.fromkeys(requests):
            chat, gen_kwargs = _chat(judge, request.context), {**request.gen_kwargs, **options}
            sent[request] = GenerationRequest.of(chat, gen_kwargs, request.sample)
        prompts = list(dict.fromkeys(sent.values()))  # a chat template may strip what distinguishes two of them
        cache = self.cache if judge.stored or self.caches_all else None
        before = _token_counts(judge) or {}
        try:
            known = cache.known(judge.identity, prompts) if cache is not None and not self.fresh else {}
            completions = {prompt: output for prompt, output in known.items() if isinstance(output, Completion)}
            missing = [prompt for prompt in prompts if prompt not in known]
            usage.requests += len(prompts)
            usage.cached += len(known)
            judge.begin_run(fresh=self.fresh, flush=cache.flush if cache is not None else lambda: True)
            with nullcontext(lambda *_: None) if cache is None else cache.recording(judge.identity) as record:
                for prompt, completion in _generate(judge, missing, cached=len(known)):
                    record(prompt, completion)
                    completions[prompt] = completion
        except MultiformError as error:
            raise error.at("judge") from error
        finally:
            if (after := _token_counts(judge)) is not None:
                spent = {name: number - before.get(name, 0) for name, number in after.items()}
                usage.prompt_tokens = (usage.prompt_tokens or 0) + spent["prompt"]
                usage.completion_tokens = (usage.completion_tokens or 0) + spent["completion"]
        return {request: completions[prompt] for request, prompt in sent.items()}


def _token_counts(judge: Model) -> dict[str, int] | None:
    """The tokens that a server or a local model has counted so far; None where it does not count them."""
    server, local = judge.server_tokens(), judge.usage()
    if server:
        return {name: server.get(name, 0) for name in ("prompt", "completion")}
    return None if local is None else {"prompt": local.prefill, "completion": local.decode}


def check_judges(specs: Iterable[JudgeSpec]) -> None:
    """Find mistakes in the arguments of judges on servers before a model runs; others are loaded when they judge."""
    for spec in specs:
        if spec.model in PROVIDERS:  # so that loading it costs nothing
            _load_judge(spec)


_judging: ContextVar[Judging | None] = ContextVar("judging", default=None)


@contextmanager
def judging_by(judging: Judging) -> Iterator[Judging]:
    """Have these judges score what tasks give to a judge."""
    token = _judging.set(judging)
    try:
        yield judging
    finally:
        _judging.reset(token)


def current_judging() -> Judging:
    """The judges of the current run; without a run, those that tasks ask for, with no cache."""
    return _judging.get() or Judging()


def _generate(
    judge: Model, requests: Sequence[GenerationRequest], *, cached: int
) -> Iterator[tuple[GenerationRequest, Completion]]:
    """The completions of all requests as they come; a ModelError at the end where some have none."""
    if not requests:
        return
    failed: list[FailedRequest] = []
    done = 0
    started = logged = time.monotonic()
    more = f", {cached} more are cached" if cached else ""
    logger.info("the judge '%s' runs %d requests%s", judge.name, len(requests), more)
    try:
        for position, completion in judge.generate(requests):
            if isinstance(completion, FailedRequest):
                failed.append(completion)
                continue
            done += 1
            yield requests[position], completion
            now = time.monotonic()
            if now - logged >= _PAUSE or done == len(requests):
                logged, spent = now, now - started
                seconds_left = spent / done * (len(requests) - done)
                logger.info("judged %d of %d, %.0f s, about %.0f s left", done, len(requests), spent, seconds_left)
    except MultiformError:
        raise
    except Exception as error:  # a model may fail in any way
        raise ModelError(f"model '{judge.name}' failed: {reason(error)}") from error
    hint = "run the same command again: responses of model and judge are stored, unless the judge is your own class"
    if failed:
        raise ModelError(f"{len(failed)} of {len(requests)} requests failed: {failed[0].reason}", hint=hint)
    if done < len(requests):
        message = f"model '{judge.name}' left {len(requests) - done} of {len(requests)} requests without a response"
        raise ModelError(message, hint=hint)


def _chat(judge: Model, text: str) -> Content:
    """The prompt as the judge gets it: a user's message, where the model has a chat template."""
    try:
        return judge.apply_chat_template([{"role": "user", "content": text}])
    except ModelError:  # a model without a chat template reads plain text
        return text


def _schema_options(judge: Model, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The argument that has a server of OpenAI's protocol write JSON of a schema; others are only told so."""
    if schema is None:
        return {}
    from multiform.models.servers.openai_chat import OpenAIProtocol  # which needs httpx

    json_schema = {"name": "verdict", "strict": True, "schema": dict(schema)}
    is_taken = isinstance(judge, OpenAIProtocol)
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}} if is_taken else {}


@lru_cache(maxsize=_LOADED)  # several forms of a run have the same judges
def _load_judge(spec: JudgeSpec) -> Model:
    arguments = json.loads(spec.arguments)
    try:
        judge = models.get(spec.model)(**arguments)
    except ImportError as error:
        message = f"model '{spec.model}' needs a package that is not installed: {error}"
        raise UsageError(message, where=WHERE, hint="pip install 'multiform[hf]'") from error
    except TypeError as error:
        raise UsageError(reason(error), where="--judge_args", hint=f"see what model '{spec.model}' takes") from error
    except MultiformError as error:
        raise error.at("judge") from error
    from multiform.models.servers.server_model import ServerModel  # which needs httpx

    if isinstance(judge, ServerModel):
        key = "--judge_args" if arguments.get("api_key") else f"${arguments.get('api_key_env', judge.key_env)}"
        logger.info("the judge '%s' is asked at %s, with the key of %s", judge.name, judge.client.shown, key)
    return judge
