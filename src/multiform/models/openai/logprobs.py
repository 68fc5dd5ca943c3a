"""Log-likelihoods from the log-probabilities of an echoed prompt.

A malformed response that may be different next time is a ModelError; one that would be the same again is a
RefusedError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from multiform.errors import ModelError
from multiform.models.servers.exchange import RefusedError
from multiform.requests import LLOutput

#: Marks of tokenizers for white space: a server that writes them does not say how its tokens are spelled.
_MARKS = ("▁", "Ġ", "Ċ")


def is_logprob(value: Any) -> bool:
    """Whether a value of a response is a log-probability: a number, and neither NaN nor above all others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value < float("inf")


def echoed_logprobs(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The log-probabilities of a choice."""
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("token_logprobs"), list):
        return logprobs
    raise ModelError("the response has no log-probabilities")


def score_tokens(choice: Mapping[str, Any], start: int, end: int) -> LLOutput:
    """The log-likelihood of the tokens from `start` up to `end` of the prompt."""
    logprobs = echoed_logprobs(choice)
    values, tops = logprobs["token_logprobs"], logprobs.get("top_logprobs")
    if len(values) not in (end, end + 1):  # one more is the token that the server generated
        hint = "check the tokenizer" if len(values) > end else None
        raise ModelError(f"the server scored {len(values)} tokens of a prompt of {end}", hint=hint)
    scored = values[start:end]
    if start == 0 and scored[:1] == [None] and all(map(is_logprob, scored[1:])):
        message = "the server gives no probability for the first token of a text"
        raise RefusedError(f"{message}; name the model's tokenizer, so that one can be put before it")
    if not all(map(is_logprob, scored)):
        raise ModelError("not all log-probabilities of the response are numbers")
    return LLOutput(float(sum(scored)), is_greedy=_are_best(scored, tops, start, end), tokens=len(scored))


def _are_best(scored: Sequence[float], tops: Any, start: int, end: int) -> bool:
    """Whether each of the tokens is the likeliest; not where the server does not say which that is."""
    best = [_best(top) for top in tops[start:end]] if isinstance(tops, list) else []
    return len(best) == len(scored) and all(
        top is not None and value >= top for value, top in zip(scored, best, strict=True)
    )


def _best(top: Any) -> float | None:
    values = [value for value in top.values() if is_logprob(value)] if isinstance(top, Mapping) else []
    return max(values, default=None)


def score_text(choice: Mapping[str, Any], prompt: str, boundary: int) -> LLOutput:
    """The log-likelihood of the prompt's text from a character on, by the server's own tokens.

    A token that spans the boundary is scored.
    """
    logprobs = echoed_logprobs(choice)
    offsets = _offsets(logprobs, prompt)
    end = next((i for i, offset in enumerate(offsets) if offset >= len(prompt)), len(offsets))
    before = [i for i, offset in enumerate(offsets[:end]) if offset < boundary]
    start = offsets.index(boundary) if boundary in offsets[:end] else before[-1] if before else 0
    lists = {key: logprobs.get(key) for key in ("token_logprobs", "top_logprobs")}
    prompt_logprobs = {key: values[:end] for key, values in lists.items() if isinstance(values, list)}
    return score_tokens({"logprobs": prompt_logprobs}, start, end)


def _offsets(logprobs: Mapping[str, Any], prompt: str) -> list[int]:
    """Where each token begins in the prompt; a first token that the server added begins before it."""
    tokens = logprobs.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise ModelError("the response has no tokens")
    partial = any(token.startswith("bytes:") or "\ufffd" in token for token in tokens)  # pieces of a character
    added = len(tokens) > 1 and not partial and (not tokens[0] or not prompt.startswith(tokens[0]))
    text_offset = logprobs.get("text_offset")
    numbers = [offset for offset in text_offset if isinstance(offset, int)] if isinstance(text_offset, list) else []
    offsets = numbers if len(numbers) == len(tokens) else None
    spelled = "".join(tokens[added:])
    if (partial and offsets is None) or not (partial or spelled.startswith(prompt)):
        message = "the tokens of the response do not spell the prompt"
        if partial or any(mark in spelled for mark in _MARKS):
            raise RefusedError(f"{message}; name the model's tokenizer, so that its tokens are sent")
        raise ModelError(message)
    offsets = offsets or [0, *accumulate(map(len, tokens[:-1]))]
    if added:  # its place is before the prompt, however the server counts it
        return [-1, *(offset - offsets[1] for offset in offsets[1:])]
    return [offset - offsets[0] for offset in offsets]
