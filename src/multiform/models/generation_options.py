"""Generation options: the `generation_kwargs` of tasks and users, checked and with defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from multiform.errors import UsageError, nearest, shorten
from multiform.requests import GENERATION_ALIASES

T = TypeVar("T")
DEFAULT_MAX_GEN_TOKS = 256
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
class GenerationOptions:
    """How one completion is generated; None leaves a setting to the model's generation config.

    Temperature 0 is greedy decoding.
    """

    until: tuple[str, ...] = ()
    max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
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
    limits = (_number(gen_kwargs, name, int, least=1) for name in LIMIT_NAMES)
    return GenerationOptions(
        until=_until(gen_kwargs.get("until")),
        max_gen_toks=next((limit for limit in limits if limit is not None), DEFAULT_MAX_GEN_TOKS),
        temperature=_temperature(gen_kwargs),
        top_p=_number(gen_kwargs, "top_p", float, least=0, most=1),
        top_k=_number(gen_kwargs, "top_k", int, least=-1),
        min_p=_number(gen_kwargs, "min_p", float, least=0, most=1),
        repetition_penalty=_number(gen_kwargs, "repetition_penalty", float, least=0),
        num_beams=_number(gen_kwargs, "num_beams", int, least=1),
    )


def _temperature(gen_kwargs: Mapping[str, Any]) -> float:
    """0 unless sampling is requested, by `do_sample` or by a temperature without it."""
    temperature = _number(gen_kwargs, "temperature", float, least=0)
    do_sample = gen_kwargs.get("do_sample")
    if do_sample is None:
        return temperature or 0.0
    if not isinstance(do_sample, bool | int):
        raise UsageError(f"do_sample must be true or false, not {shorten(do_sample)}")
    if not do_sample:
        return 0.0
    return 1.0 if temperature is None else temperature


def _until(value: Any) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else value
    if strings is None:
        return ()
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise UsageError(f"until must be a string or a list of strings, not {shorten(value)}")
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
    raise UsageError(f"{name} must be a number {bounds}, not {shorten(value)}")
