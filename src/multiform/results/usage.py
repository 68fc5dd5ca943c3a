"""Usage: the requests and tokens of a run, as the key `usage` of a results file and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiform.models.usage import Usage


def usage_entry(
    usage: Usage | None, *, requests: int, cached: int, asked_again: int, loading_seconds: float
) -> dict[str, Any]:
    """The key `usage`: distinct requests, those that were cached, those that were run again because a worker failed,
    and tokens, which are null where a model does not count them."""
    return {
        "requests": requests,
        "requests_cached": cached,
        "requests_asked_again": asked_again,
        "prompt_tokens_computed": None if usage is None else usage.prefill,
        "completion_tokens_computed": None if usage is None else usage.decode,
        "prompt_tokens_without_sharing": None if usage is None else usage.unshared,
        "model_loading_seconds": round(loading_seconds, 3),
    }


def usage_words(entry: Mapping[str, Any] | None) -> str | None:
    """The numbers of a results file in a line; None for files that have none, such as lm-eval's.

    >>> usage_words({"requests": 1200, "requests_cached": 200, "prompt_tokens_computed": 3000,
    ...              "completion_tokens_computed": 500, "prompt_tokens_without_sharing": 9000})
    '1,200 requests, 200 of them cached; 3,500 tokens computed, 6,000 shared'
    """
    if not entry:
        return None
    words = f"{entry['requests']:,} requests, {entry['requests_cached']:,} of them cached"
    prompt = entry.get("prompt_tokens_computed")
    if prompt is None:
        return words
    computed = prompt + entry["completion_tokens_computed"]
    shared = max(0, entry["prompt_tokens_without_sharing"] - prompt)
    return f"{words}; {computed:,} tokens computed, {shared:,} shared"
