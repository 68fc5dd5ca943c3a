"""Generation arguments as OpenAI's protocol has them, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import ModelError, shorten
from multiform.requests import GENERATION_ALIASES, Completion, GenerationRequest

DEFAULT_MAX_GEN_TOKS = 256
LIMIT_NAMES = GENERATION_ALIASES["max_gen_toks"]
#: Servers take no more stop strings than this; the text is cut at all of them when it is here.
MOST_STOPS = 4


def generation_payload(request: GenerationRequest, seed: int | None, limit_name: str = "max_tokens") -> dict[str, Any]:
    """The arguments of a generation; those that are not known here go to the server as they are.

    >>> generation_payload(GenerationRequest.of("", {"until": ["."], "max_gen_toks": 8, "top_p": 0.9}), seed=1)
    {'max_tokens': 8, 'temperature': 0.0, 'stop': ['.'], 'seed': 1, 'top_p': 0.9}
    """
    kwargs = request.gen_kwargs
    made: dict[str, Any] = {
        limit_name: token_limit(request),
        "temperature": _temperature(kwargs.pop("do_sample", None), kwargs.pop("temperature", None)),
    }
    if stops := stop_strings(request):
        made["stop"] = stops[:MOST_STOPS]
    first = kwargs.pop("seed", seed)
    if first is not None:
        made["seed"] = first + request.sample  # the repeats of a question are to differ
    return made | {key: value for key, value in kwargs.items() if key not in ("until", *LIMIT_NAMES)}


def stop_strings(request: GenerationRequest) -> list[str]:
    """The strings at which the text ends."""
    until = request.gen_kwargs.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def token_limit(request: GenerationRequest) -> int:
    """How many tokens may be written."""
    kwargs = request.gen_kwargs
    return int(next((kwargs[name] for name in LIMIT_NAMES if kwargs.get(name)), DEFAULT_MAX_GEN_TOKS))


def read_choice(answer: Any, where: str) -> Mapping[str, Any]:
    """The first choice of an answer; an answer without one is an error that shows it."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return choices[0]
    hint = "check that base_url is an OpenAI-compatible endpoint"
    raise ModelError(f"the answer has no choices: {shorten(answer, 200)}", where=where, hint=hint)


def completion(text: Any, choice: Mapping[str, Any], stops: Sequence[str]) -> Completion:
    """A text up to its first stop string; none at all, as after a refusal, is an empty one."""
    said = text if isinstance(text, str) else ""
    ends = [said.find(stop) for stop in stops if stop in said]
    truncated = choice.get("finish_reason") == "length" and not ends
    return Completion(said[: min(ends)] if ends else said, truncated=truncated)


def _temperature(do_sample: Any, temperature: Any) -> float:
    """0 unless sampling was asked for, by `do_sample` or by a temperature without it."""
    if do_sample is None:
        return float(temperature or 0.0)
    if not do_sample:
        return 0.0
    return 1.0 if temperature is None else float(temperature)
