"""ForcedTokens: a logits processor of vLLM that makes a request generate given tokens.

vLLM takes the log-probabilities that it returns before any processor runs (`logprobs_mode="raw_logprobs"`), so the
tokens are forced and their log-probabilities are the model's own. The prompt is an ordinary one, which the prefix
cache serves; prompt log-probabilities would switch that off.

The tokens are an extra argument of the request (`SamplingParams.extra_args`, `vllm_xargs` of a server). The class is
loaded by name in vLLM's own processes. A server gets it by
``vllm serve MODEL --logits-processors multiform.models.vllm.processor:ForcedTokens``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from multiform.models.vllm.queries import FORCED_ARGUMENT

if TYPE_CHECKING:
    from vllm import SamplingParams


class ForcedTokens(AdapterLogitsProcessor):  # type: ignore[misc]
    """Leaves each request with `multiform_tokens` one token to choose in every step."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        tokens = (sampling_params.extra_args or {}).get(FORCED_ARGUMENT)
        if tokens is None:
            return
        if not isinstance(tokens, list) or not all(isinstance(token, int) and token >= 0 for token in tokens):
            raise ValueError(f"{FORCED_ARGUMENT} must be a list of token ids")
        if sampling_params.max_tokens is None or sampling_params.max_tokens > len(tokens):
            raise ValueError(f"max_tokens must be at most the {len(tokens)} tokens of {FORCED_ARGUMENT}")

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Any:
        tokens = (params.extra_args or {}).get(FORCED_ARGUMENT)
        return None if tokens is None else partial(_force, tokens)


def _force(tokens: Sequence[int], output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Allow only the next of some tokens."""
    if len(output_ids) < len(tokens):  # a step that is scheduled ahead may be one beyond the last
        logits.fill_(float("-inf"))
        logits[tokens[len(output_ids)]] = 0.0
    return logits
