"""Log-likelihoods from the log-probabilities of an echoed prompt."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from multiform.errors import ModelError
from multiform.requests import LLOutput

_ECHO_HINT = "log-likelihoods need a completions server with echo and logprobs, such as vLLM"


def score_tokens(choice: Mapping[str, Any], start: int, end: int, where: str) -> LLOutput:
    """The log-likelihood of the tokens from `start` up to `end` of the prompt."""
    logprobs = _logprobs(choice, where)
    values, tops = logprobs["token_logprobs"], logprobs.get("top_logprobs") or ()
    if len(values) not in (end, end + 1):  # one more is the token that the server generated
        what = f"the server scored {len(values)} tokens of a prompt of {end}"
        raise ModelError(what, where=where, hint=_ECHO_HINT if len(values) < end else "check the tokenizer")
    scored = values[start:end]
    if any(not isinstance(value, int | float) for value in scored):
        what = "the server gives no probability for the first token of a text"
        raise ModelError(what, where=where, hint="name the model's tokenizer, so that one can be put before it")
    best = [max(top.values()) if isinstance(top, Mapping) and top else None for top in tops[start:end]]
    greedy = len(best) == len(scored) and all(
        top is not None and value >= top for value, top in zip(scored, best, strict=True)
    )
    return LLOutput(float(sum(scored)), is_greedy=greedy, tokens=len(scored))


def score_text(choice: Mapping[str, Any], prompt: str, boundary: int, where: str) -> LLOutput:
    """The log-likelihood of the prompt's text from a character on, by the server's own tokens.

    A token that spans the boundary is scored.
    """
    logprobs = _logprobs(choice, where)
    offsets = _offsets(logprobs, prompt, where)
    end = next((i for i, offset in enumerate(offsets) if offset >= len(prompt)), len(offsets))
    before = [i for i, offset in enumerate(offsets[:end]) if offset < boundary]
    start = offsets.index(boundary) if boundary in offsets[:end] else before[-1] if before else 0
    kept = {key: (logprobs.get(key) or [])[:end] for key in ("token_logprobs", "top_logprobs")}
    return score_tokens({"logprobs": kept}, start, end, where)


def _logprobs(choice: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("token_logprobs"), list):
        return logprobs
    raise ModelError("the answer has no log-probabilities", where=where, hint=_ECHO_HINT)


def _offsets(logprobs: Mapping[str, Any], prompt: str, where: str) -> list[int]:
    """Where each token begins in the prompt; a first token that the server added begins before it."""
    tokens = logprobs.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise ModelError("the answer has no tokens", where=where, hint=_ECHO_HINT)
    partial = any(token.startswith("bytes:") or "\ufffd" in token for token in tokens)  # pieces of a character
    added = len(tokens) > 1 and not partial and (not tokens[0] or not prompt.startswith(tokens[0]))
    text_offset = logprobs.get("text_offset")
    offsets = text_offset if isinstance(text_offset, list) and len(text_offset) == len(tokens) else None
    if (partial and offsets is None) or not (partial or "".join(tokens[added:]).startswith(prompt)):
        what = "the tokens of the answer do not spell the prompt"
        raise ModelError(what, where=where, hint="name the model's tokenizer, so that its tokens are sent")
    offsets = offsets or [0, *accumulate(map(len, tokens[:-1]))]
    if added:  # its place is before the prompt, however the server counts it
        return [-1, *(offset - offsets[1] for offset in offsets[1:])]
    return [offset - offsets[0] for offset in offsets]
