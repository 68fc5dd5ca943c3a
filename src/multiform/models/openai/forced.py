"""Scores of continuations from forced tokens, so that the server's prefix cache is used.

vLLM's servers list the log-probabilities of given tokens in one step (`logprob_token_ids`), and generate given tokens
where they run our logits processor (`--logits-processors`, with `vllm_xargs`). Servers ignore arguments that they do
not know, so support is probed first, with tokens by their ids (`return_tokens_as_token_ids`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from multiform.errors import ModelError
from multiform.models.openai.logprobs import ROUNDING, echoed_logprobs, is_logprob, total_score
from multiform.models.openai.payload import only_choice
from multiform.models.vllm.queries import FORCED_ARGUMENT, Query
from multiform.requests import LLOutput

_GENERATED: Mapping[str, Any] = {
    "echo": False,
    "logprobs": 1,
    "temperature": 0,
    "ignore_eos": True,
    "return_tokens_as_token_ids": True,
}


def query_arguments(query: Query) -> dict[str, Any]:
    """The arguments of the completion request for a query of labels or of forced tokens."""
    tokens = list(query.tokens)
    if query.kind == "labels":
        return {**_GENERATED, "max_tokens": 1, "logprob_token_ids": list(dict.fromkeys(tokens))}
    return {**_GENERATED, "max_tokens": len(tokens), "vllm_xargs": {FORCED_ARGUMENT: tokens}}


def query_scores(query: Query, response: Any) -> dict[int, LLOutput]:
    """The score of each pair of a query by its position; a ModelError where the response does not have them."""
    logprobs = echoed_logprobs(only_choice(response))
    names, values = logprobs.get("tokens"), logprobs["token_logprobs"]
    usage = response.get("usage")
    number = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if number is not None and number != len(query.prompt):
        raise ModelError(f"the server read {number} tokens of a prompt of {len(query.prompt)}")
    if query.kind == "labels":
        return _label_scores(query, names, logprobs.get("top_logprobs"))
    if names != [_name(token) for token in query.tokens] or len(values) != len(names):
        raise ModelError("the server did not generate the tokens of a continuation")
    tops = logprobs.get("top_logprobs")
    return {query.pairs[0]: total_score(values, tops if isinstance(tops, list) else None)}


def _label_scores(query: Query, names: Any, tops: Any) -> dict[int, LLOutput]:
    listed = tops[0] if isinstance(tops, list) and tops and isinstance(tops[0], Mapping) else {}
    scores: dict[int, LLOutput] = {}
    for position, token in zip(query.pairs, query.tokens, strict=True):
        value: Any = listed.get(_name(token))
        if not is_logprob(value) or not isinstance(names, list) or not names:
            raise ModelError("the response has no log-probabilities of the labels")
        scores[position] = LLOutput(float(value), is_greedy=names[0] == _name(token), tokens=1)
    total = sum(math.exp(listed[_name(token)]) for token in set(query.tokens))
    if total > 1 + ROUNDING:
        raise ModelError(f"the probabilities of the labels add up to {total:.3g}")
    return scores


def _name(token: int) -> str:
    return f"token_id:{token}"
