"""Checks of a model's arguments, before anything is loaded; and of generation arguments, with their defaults."""

from __future__ import annotations

import contextlib
import inspect
import logging
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from multiform.errors import UsageError, excerpt, nearest
from multiform.requests import GENERATION_ALIASES

logger = logging.getLogger("multiform")

_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true"),
    int: ("a whole number", "8"),
    float: ("a number", "0.5"),
}
T = TypeVar("T")
DEFAULT_MAX_GEN_TOKS = 256
#: The value of `max_gen_toks` for a completion that may fill the context of the model; "context-64" leaves 64 tokens.
CONTEXT = "context"
#: Names of the token limit, with decreasing precedence.
LIMIT_NAMES = GENERATION_ALIASES["max_gen_toks"]
#: All names that are accepted. `seed` has no field: random numbers are derived from the request, which contains it.
KNOWN = (
    *LIMIT_NAMES,
    "until",
    "do_sample",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "num_beams",
    "seed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An argument that is not supported, and what to do instead.

    A value that is set is refused, but for those in `unless`; with `only`, these values alone are.
    """

    hint: str
    unless: Collection[Any] = ()
    only: Collection[Any] = ()

    def applies(self, value: Any) -> bool:
        """Whether a value is refused."""
        return value in self.only if self.only else bool(value) and value not in self.unless


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRules:
    """How a model treats arguments that lm-eval has and its constructor does not.

    `renamed` maps lm-eval's names to ours. Arguments in `without_effect` change nothing, for the reason that is
    logged; those in `ignored` are dropped without a word, and those in `refused` are errors. Arguments in `speed`,
    which it takes, change how fast responses come, not which.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    ignored: Collection[str] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    speed: Collection[str] = ()

    @classmethod
    def of(cls, *kinds: str, ignored: Collection[str] = ()) -> ArgumentRules:
        """The rules of these kinds of models together, from ``arguments.toml``."""
        renamed, without_effect, refused = (
            {name: rule for kind in kinds for name, rule in _tables()[kind].get(table, {}).items()}
            for table in ("renamed", "without_effect", "refused")
        )
        return cls(
            renamed=renamed,
            without_effect=without_effect,
            ignored=ignored,
            refused={name: Refusal(**rule) for name, rule in refused.items()},
            speed=[name for kind in kinds for name in _tables()[kind].get("speed", ())],
        )

    def resolve(
        self,
        arguments: Mapping[str, Any],
        accepted: Collection[str],
        *,
        suggestions: Collection[str] = (),
        where: str | None = None,
    ) -> dict[str, Any]:
        """Those of the arguments that are accepted, under their own names.

        Raises a UsageError for an unknown one, with the nearest among the accepted ones and the suggestions.
        """
        resolved: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in self.refused:
                if self.refused[name].applies(value):
                    hint = self.refused[name].hint
                    raise UsageError(f"the model argument '{name}' is not supported", hint=hint)
                if value and name in self.without_effect:
                    self._log(name)
            elif name in self.without_effect:
                self._log(name)
            elif name in self.ignored:
                continue
            elif (own_name := self.renamed.get(name, name)) in accepted:
                resolved.setdefault(own_name, value)
            else:
                known = dict.fromkeys([*suggestions, *accepted, *self.without_effect])
                hint = nearest(name, list(known), listed="arguments")
                raise UsageError(f"unknown model argument '{name}'", where=where, hint=hint)
        return resolved

    def _log(self, name: str) -> None:
        logger.info("the model argument '%s' changes nothing: %s", name, self.without_effect[name])


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def argument_names(cls: type) -> list[str]:
    """The names of the arguments that the constructors of a class and its bases take."""
    names: dict[str, None] = {}
    for constructor in _constructors(cls):
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        names |= dict.fromkeys(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
    return list(names)


def _constructors(factory: Callable[..., Any]) -> list[Any]:
    """The constructors of a class and its bases, these first; of another function none."""
    classes = [cls for cls in reversed(getattr(factory, "__mro__", ())) if cls is not object]
    return [vars(cls)["__init__"] for cls in classes if "__init__" in vars(cls)]


def check_arguments(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first argument whose type is not that in the constructors of a class."""
    hints: dict[str, Any] = {}
    for constructor in _constructors(factory):
        with contextlib.suppress(NameError, TypeError):  # names that only a type checker imports
            hints |= get_type_hints(constructor)
    check_types(hints, arguments)


def check_types(hints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first value that is neither null nor of its type; strings accept anything.

    >>> check_types({"max_length": int | None}, {"max_length": "long"})
    Traceback (most recent call last):
    multiform.errors.UsageError: 'max_length' must be a whole number, not 'long'; give e.g. max_length=8
    """
    for name, value in values.items():
        kinds = [kind for kind in get_args(hints.get(name)) or (hints.get(name),) if kind is not type(None)]
        if value is None or any(kind not in _WORDS or _is_a(value, kind) for kind in kinds):
            continue
        words = " or ".join(_WORDS[kind][0] for kind in kinds)
        hint = f"give e.g. {name}={_WORDS[kinds[0]][1]}"
        raise UsageError(f"'{name}' must be {words}, not {excerpt(value)}", hint=hint)


def take_fields(cls: type[T], arguments: dict[str, Any]) -> T:
    """A dataclass of those of the arguments that are its fields, which are removed from them; None is the default.

    Raises a UsageError for a value of another type.
    """
    hints = get_type_hints(cls)
    taken = {name: arguments.pop(name) for name in hints if name in arguments}
    check_types(hints, taken)
    texts = [name for name, hint in hints.items() if hint in (str, str | None)]
    return cls(**{name: str(v) if name in texts else v for name, v in taken.items() if v is not None})


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool) or value in (0, 1)
    return isinstance(value, (int, kind)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """How one completion is generated; None leaves a setting to the model's generation config.

    Temperature 0 is greedy decoding.
    """

    until: tuple[str, ...] = ()
    max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
    #: Whether the completion may fill what the prompt leaves of the model's context, and how many tokens it leaves.
    fills_context: bool = False
    reserved: int = 0
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    num_beams: int | None = None


def generation_options(gen_kwargs: Mapping[str, Any]) -> GenerationOptions:
    """The options for generation arguments, which have lm-eval's names and defaults.

    >>> generation_options({"until": "\\n", "max_tokens": 5}).max_gen_toks
    5
    """
    for name in gen_kwargs:
        if name not in KNOWN:
            raise UsageError(f"unknown generation argument '{name}'", hint=nearest(name, KNOWN, listed="arguments"))
    fills_context = is_context_limit(gen_kwargs)
    limits = (_number(gen_kwargs, name, int, least=1) for name in LIMIT_NAMES if not fills_context)
    return GenerationOptions(
        until=read_until(gen_kwargs.get("until")),
        max_gen_toks=next((limit for limit in limits if limit is not None), DEFAULT_MAX_GEN_TOKS),
        fills_context=fills_context,
        reserved=int(str(stated_limit(gen_kwargs)).partition("-")[2] or 0) if fills_context else 0,
        temperature=read_temperature(gen_kwargs),
        top_p=_number(gen_kwargs, "top_p", float, least=0, most=1),
        top_k=_number(gen_kwargs, "top_k", int, least=-1),
        min_p=_number(gen_kwargs, "min_p", float, least=0, most=1),
        repetition_penalty=_number(gen_kwargs, "repetition_penalty", float, least=0),
        num_beams=_number(gen_kwargs, "num_beams", int, least=1),
    )


def stated_limit(gen_kwargs: Mapping[str, Any]) -> Any:
    """The limit of a completion, under whichever name it is given; None where it has none."""
    return next((gen_kwargs[name] for name in LIMIT_NAMES if gen_kwargs.get(name) is not None), None)


def is_context_limit(gen_kwargs: Mapping[str, Any]) -> bool:
    """Whether a completion is limited by the model's context alone: ``max_gen_toks: context``."""
    return str(stated_limit(gen_kwargs)).partition("-")[0] == CONTEXT


def read_temperature(gen_kwargs: Mapping[str, Any]) -> float:
    """0 unless sampling is requested, by `do_sample` or by a temperature without it."""
    temperature = _number(gen_kwargs, "temperature", float, least=0)
    do_sample = gen_kwargs.get("do_sample")
    if do_sample is None:
        return temperature or 0.0
    if not isinstance(do_sample, bool | int):
        raise UsageError(f"do_sample must be true or false, not {excerpt(do_sample)}")
    if not do_sample:
        return 0.0
    return 1.0 if temperature is None else temperature


def read_until(value: Any) -> tuple[str, ...]:
    """The stop strings that the argument `until` is."""
    strings = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else value
    if strings is None:
        return ()
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise UsageError(f"until must be a string or a list of strings, not {excerpt(value)}")
    return tuple(item for item in strings if item)


def _number(
    gen_kwargs: Mapping[str, Any],
    name: str,
    kind: Callable[[Any], T],
    *,
    least: float,
    most: float = float("inf"),
) -> T | None:
    value = gen_kwargs.get(name)
    if value is None:
        return None
    try:
        if least <= float(value) <= most and float(kind(value)) == float(value):  # type: ignore[arg-type]
            return kind(value)
    except (TypeError, ValueError):
        pass
    bounds = f"from {least:g} to {most:g}" if most < float("inf") else f"of at least {least:g}"
    raise UsageError(f"{name} must be a number {bounds}, not {excerpt(value)}")
