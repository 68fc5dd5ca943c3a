"""Log-likelihoods out of the log-probabilities of an echoed prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import ModelError
from multiform.requests import LLOutput

_ECHO_HINT = "log-likelihoods need a completions server with echo and logprobs, such as vLLM"


def score_tokens(choice: Mapping[str, Any], start: int, end: int, where: str) -> LLOutput:
    """The log-likelihood of the tokens from `start` up to `end` of the prompt."""
    logprobs = _logprobs(choice, where)
    values, tops = logprobs["token_logprobs"], logprobs.get("top_logprobs") or ()
    if len(values) not in (end, end + 1):  # one more is the token that the server wrote
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
    # The token that holds the boundary is the last that begins at or before it.
    start = max((i for i, offset in enumerate(offsets[:end]) if offset <= boundary), default=0)
    kept = {key: (logprobs.get(key) or [])[:end] for key in ("token_logprobs", "top_logprobs")}
    return score_tokens({"logprobs": kept}, start, end, where)


def _logprobs(choice: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("token_logprobs"), list):
        return logprobs
    raise ModelError("the answer has no log-probabilities", where=where, hint=_ECHO_HINT)


def _offsets(logprobs: Mapping[str, Any], prompt: str, where: str) -> Sequence[int]:
    """Where each token begins in the prompt; a first token that the server added begins before it."""
    tokens = logprobs.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError("the answer has no tokens", where=where, hint=_ECHO_HINT)
    offsets = logprobs.get("text_offset")
    if not isinstance(offsets, list) or len(offsets) != len(tokens):
        offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    added = len(tokens) > 1 and not prompt.startswith(tokens[0])
    begin = offsets[1] if added else offsets[0] if offsets else 0
    return [offset - begin for offset in offsets]
