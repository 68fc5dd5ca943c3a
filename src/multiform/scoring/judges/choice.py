"""JudgeChoice: the models that the user lets judge.

Judges are chosen by the user, or by the names that a task asks for. A task file may be a stranger's. It never chooses
where requests and keys are sent, which variable of the environment is a key, or whose code is run: it may name models,
and the rest comes from the user (`--judge_model`, `--judge_args`) or is that of the models' providers.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, UsageError, nearest, shorten
from multiform.models import models
from multiform.models.prices import Price

logger = logging.getLogger("multiform")

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
#: Arguments that are no arguments of the model: its registered name, and dollars for a million tokens.
_PRICES = ("prompt_price", "completion_price")
WHERE = "scorer.kwargs"


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A judge: what results call it, the registered model, its arguments as JSON, and the price that the user gave."""

    name: str
    model: str
    arguments: str = field(default="{}", repr=False)
    price: Price | None = None

    @property
    def is_on_a_server(self) -> bool:
        """Whether a server runs it, so that loading it costs nothing."""
        return self.model in _PROVIDERS


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

    def spec(self, name: str, *, all_names: Sequence[str], stated: bool) -> JudgeSpec:
        """The judge of a name; `stated` says that the user named it, and not the task."""
        # A task may call its judge as an argument is called, which must not take that argument away.
        own = {
            key: value
            for key, value in self.arguments.items()
            if key in all_names and isinstance(value, Mapping) and key.lower() not in _SECRETS
        }
        common = {key: value for key, value in self.arguments.items() if key not in own}
        alone = own.get(name, {})
        arguments = {key: value for key, value in {**common, **alone}.items() if key not in alone or value is not None}
        price = _price(arguments)
        arguments = {key: value for key, value in arguments.items() if key not in _PRICES}
        model = str(arguments.pop("judge_model", name))
        named = stated or bool(alone)
        keys = [key for key in arguments if key.lower() in (*_SECRETS, "api_key_env")]
        base_url = arguments.get("base_url")
        if keys and not (named or base_url):
            message = f"{keys[0]} is a key for a judge that the task names, which would choose where the key is sent"
            raise ConfigError(message, where="--judge_args", hint="name the judge, too: --judge_model, or base_url=...")
        if model not in models:
            provider = next((kind for kind, pattern in _PROVIDERS.items() if pattern.fullmatch(model)), None)
            if provider is None and not base_url and not os.environ.get("OPENAI_BASE_URL"):
                hint = f"{nearest(model, models, listed='models')}, or give the server that runs it: "
                where = "--judge_model" if named else f"{WHERE}.judge_model"
                raise ConfigError(f"unknown model '{model}'", where=where, hint=f"{hint}--judge_args base_url=...")
            arguments["model"] = model
            model = SERVED if base_url else provider or SERVED
        return JudgeSpec(name, model, json.dumps(arguments, sort_keys=True, default=str), price)


def judge_names(spec: str | Sequence[str] | None, where: str) -> tuple[str, ...]:
    """The names of judges: of one, of several with commas between them, or of a list.

    >>> judge_names("gpt-5-mini, bundled", "--judge_model"), judge_names(None, "--judge_model")
    (('gpt-5-mini', 'bundled'), ())
    """
    listed = spec.split(",") if isinstance(spec, str) else [] if spec is None else list(spec)
    names = tuple(str(name).strip() for name in listed)
    if "" in names or len(set(names)) < len(names):
        message = f"'{shorten(spec)}' names a judge twice" if "" not in names else "a name of a judge is empty"
        raise ConfigError(message, where=where, hint="separate different names by commas")
    return names


def _price(arguments: Mapping[str, Any]) -> Price | None:
    given = [arguments[key] for key in _PRICES if key in arguments]
    if not given:
        return None
    if len(given) == 2 and all(isinstance(price, int | float) and price >= 0 for price in given):
        return Price(*map(float, given))
    hint = "give both in dollars for a million tokens: prompt_price=2,completion_price=8"
    raise UsageError(f"the prices of a judge are {shorten(given)}", where="--judge_args", hint=hint)


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


def check_wish(arguments: Mapping[str, Any]) -> None:
    """Refuse secrets among what a task asks for: its configuration is part of the results file."""
    for key in (*arguments, *(f"the header {name}" for name in arguments.get("headers") or ())):
        if key.lower() in ("api_key", "auth_token") or key.startswith("the header "):
            message = f"{key} would be written into the results"
            raise ConfigError(message, where=f"{WHERE}.model_args", hint="give it in --judge_args")
    if re.search(r"//[^/]*@|\?", str(arguments.get("base_url") or "")):
        message = "the user, password or parameters of base_url would be written into the results"
        raise ConfigError(message, where=f"{WHERE}.base_url", hint="give it in --judge_args")


def choose_judges(choice: JudgeChoice, names: Sequence[str], wish: Mapping[str, Any]) -> list[JudgeSpec]:
    """The models that judge, where a task asks for these with the arguments of `wish`; none is loaded.

    The arguments of a task are not used: the user may repeat them.
    """
    if wish and not choice:
        listed = ", ".join(sorted(wish))
        message = f"the task says where its judge is or how it is loaded ({listed}), which is up to the user"
        hint = "look at it; if you agree, give the same in --judge_model and --judge_args, or in evaluate()"
        raise ConfigError(message, where=WHERE, hint=hint)
    if wish:
        logger.info("the judge is that of --judge_model and --judge_args, not that of the task")
    judges = choice.names or tuple(names)
    if not judges:
        raise ConfigError("no judge is named", where=f"{WHERE}.judge_model", hint="name one here or in --judge_model")
    return [choice.spec(name, all_names=judges, stated=bool(choice.names)) for name in judges]
