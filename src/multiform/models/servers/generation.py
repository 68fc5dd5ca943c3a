"""Generation arguments that all protocols have, and completions that are cut as the request says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from multiform.inference.generation_options import DEFAULT_MAX_GEN_TOKS, LIMIT_NAMES
from multiform.requests import Completion, GenerationRequest


def stop_strings(request: GenerationRequest) -> list[str]:
    """The strings at which a completion ends."""
    until = request.gen_kwargs.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def token_limit(request: GenerationRequest) -> int:
    """The most tokens of a completion."""
    kwargs = request.gen_kwargs
    return int(next((kwargs[name] for name in LIMIT_NAMES if kwargs.get(name)), DEFAULT_MAX_GEN_TOKS))


def temperature(request: GenerationRequest) -> float:
    """0 unless sampling is requested, by `do_sample` or by a temperature without it."""
    do_sample, value = request.gen_kwargs.get("do_sample"), request.gen_kwargs.get("temperature")
    if do_sample is None:
        return float(value or 0.0)
    if not do_sample:
        return 0.0
    return 1.0 if value is None else float(value)


def seed(request: GenerationRequest, default: int | None) -> int | None:
    """The seed of a request: another one for each repeat of a question."""
    first: int | None = request.gen_kwargs.get("seed", default)
    return None if first is None else first + request.sample


def other_arguments(request: GenerationRequest, known: Collection[str] = ()) -> dict[str, Any]:
    """The arguments that no function of this module reads, and that are not otherwise `known`."""
    read = ("until", "do_sample", "temperature", "seed", *LIMIT_NAMES, *known)
    return {key: value for key, value in request.gen_kwargs.items() if key not in read}


def completion(text: str, stops: Sequence[str], *, at_limit: bool) -> Completion:
    """The completion up to its first stop string; `at_limit` says that the server cut it at the token limit.

    >>> completion("four. And more", [".", "More"], at_limit=True)
    Completion(text='four', truncated=False, context_truncated=False)
    """
    ends = [text.find(stop) for stop in stops if stop in text]
    return Completion(text[: min(ends)] if ends else text, truncated=at_limit and not ends)
