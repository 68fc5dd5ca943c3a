"""Generation arguments in the terms of OpenAI's protocol, and the choices in its responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import ModelError, shorten
from multiform.inference.generation_options import DEFAULT_MAX_GEN_TOKS, LIMIT_NAMES
from multiform.requests import Completion, GenerationRequest

#: Servers accept no more stop strings than this; completions are cut at all of them on arrival.
MAX_STOPS = 4


def generation_payload(request: GenerationRequest, seed: int | None, limit_name: str = "max_tokens") -> dict[str, Any]:
    """The payload for a generation; unknown arguments are passed to the server as they are.

    >>> generation_payload(GenerationRequest.of("", {"until": ["."], "max_gen_toks": 8, "top_p": 0.9}), seed=1)
    {'max_tokens': 8, 'temperature': 0.0, 'stop': ['.'], 'seed': 1, 'top_p': 0.9}
    """
    kwargs = request.gen_kwargs
    payload: dict[str, Any] = {
        limit_name: token_limit(request),
        "temperature": _temperature(kwargs.pop("do_sample", None), kwargs.pop("temperature", None)),
    }
    if stops := stop_strings(request):
        payload["stop"] = stops[:MAX_STOPS]
    first_seed = kwargs.pop("seed", seed)
    if first_seed is not None:
        payload["seed"] = first_seed + request.sample  # the repeats of a question must differ
    return payload | {key: value for key, value in kwargs.items() if key not in ("until", *LIMIT_NAMES)}


def stop_strings(request: GenerationRequest) -> list[str]:
    """The strings at which a completion ends."""
    until = request.gen_kwargs.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def token_limit(request: GenerationRequest) -> int:
    """The most tokens of a completion."""
    kwargs = request.gen_kwargs
    return int(next((kwargs[name] for name in LIMIT_NAMES if kwargs.get(name)), DEFAULT_MAX_GEN_TOKS))


def first_choice(response: Any, where: str) -> Mapping[str, Any]:
    """The first choice of a response; a response without one is an error that shows it."""
    choices = response.get("choices") if isinstance(response, Mapping) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return choices[0]
    hint = "check that base_url is an OpenAI-compatible endpoint"
    raise ModelError(f"the answer has no choices: {shorten(response, 200)}", where=where, hint=hint)


def completion(text: Any, choice: Mapping[str, Any], stops: Sequence[str]) -> Completion:
    """The completion up to its first stop string; a missing text, as after a refusal, is an empty one."""
    whole = text if isinstance(text, str) else ""
    ends = [whole.find(stop) for stop in stops if stop in whole]
    truncated = choice.get("finish_reason") == "length" and not ends
    return Completion(whole[: min(ends)] if ends else whole, truncated=truncated)


def _temperature(do_sample: Any, temperature: Any) -> float:
    """0 unless sampling is requested, by `do_sample` or by a temperature without it."""
    if do_sample is None:
        return float(temperature or 0.0)
    if not do_sample:
        return 0.0
    return 1.0 if temperature is None else float(temperature)
