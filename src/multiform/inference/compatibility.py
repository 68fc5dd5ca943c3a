"""Compatibility: which models can share prefixes, found out by their configuration and by a trial run."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from multiform.inference.attention import COMMON, is_available
from multiform.inference.counters import Counters
from multiform.inference.decode.batch import has_plain_cache
from multiform.inference.decode.shared import SharedPrefixBatch
from multiform.inference.device import device_of
from multiform.inference.forward import Forward, Mode
from multiform.inference.layers import has_standard_layers
from multiform.inference.lm_head import LMHead
from multiform.inference.scoring.by_plan import score_by_plan
from multiform.inference.scoring.loglikelihood import token_logprobs
from multiform.inference.sequences import Pair

#: Attention implementations that take a mask in four dimensions.
ATTENTION = ("sdpa", "eager")
#: What a model raises that does not accept the inputs of a plan.
TRIAL_ERRORS = (AttributeError, IndexError, NotImplementedError, TypeError, ValueError, RuntimeError)
#: A shorter attention window is not worth a plan.
SHORTEST = 8
NEEDED = ("attention_mask", "position_ids", "past_key_values")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSupport:
    """Sequences of up to `max_length` tokens can share prefixes; `reason` says why longer ones cannot.

    `mode` is the fastest one that gives the model's own results, and `token_bytes` the memory of the keys
    and values of one token.
    """

    max_length: int
    reason: str = ""
    token_bytes: int = 1
    mode: Mode = Mode.MASKED


def prefix_support(head: LMHead) -> PrefixSupport:
    """Whether and how a model can share prefixes."""
    model = head.model
    if not has_plain_cache(model):
        return PrefixSupport(max_length=0, reason="it keeps no keys and values for each token")
    if model.config._attn_implementation not in ATTENTION:
        return PrefixSupport(max_length=0, reason=f"its attention is '{model.config._attn_implementation}'")
    accepted = inspect.signature(model.base_model.forward).parameters
    if missing := [name for name in NEEDED if name not in accepted]:
        return PrefixSupport(max_length=0, reason=f"it takes no '{missing[0]}'")
    max_length, reason = _full_attention_length(model.config.get_text_config())
    if max_length < SHORTEST:
        return PrefixSupport(max_length=0, reason=reason)
    trial = _trial_pairs(max_length)
    expected, token_bytes = _score_alone(head, trial[-1])
    mode = next((mode for mode in _candidate_modes(head) if _agrees(Forward(head, mode), trial, expected)), None)
    if mode is None:
        return PrefixSupport(max_length=0, reason="it gives other results with a prefix tree")
    return PrefixSupport(max_length=max_length, reason=reason, token_bytes=token_bytes, mode=mode)


@torch.inference_mode()
def can_share_in_decode(forward: Forward) -> bool:
    """Whether sequences that are decoded with a shared prefix get the logits that each gets alone."""
    head = forward.head
    if not head.model._supports_attention_backend:
        return False
    prompts = [[5, 6, 7, 8, *end] for end in ([9, 10], [11], [12, 13, 14])]
    batch = SharedPrefixBatch(forward, Counters(), size=4)
    try:
        batch.prefill(prompts, [4, 4, 0])
        together = batch.decode([15, 16, 17])
    except TRIAL_ERRORS:
        return False
    device = device_of(head.model)
    alone = [
        head.model(input_ids=torch.tensor([[*prompt, token]], device=device), use_cache=False).logits[0, -1]
        for prompt, token in zip(prompts, (15, 16, 17), strict=True)
    ]
    expected = torch.stack(alone).float()
    return bool((together - expected).abs().max() <= _tolerance(head) * expected.abs().max().clamp(min=1.0))


def _full_attention_length(config: Any) -> tuple[int, str]:
    """The longest sequence whose tokens see all before them at their plain positions, and what ends there."""
    limits: list[tuple[int, str]] = [(2**31, "")]
    kinds = getattr(config, "layer_types", None)
    sliding = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    if sliding and isinstance(window := getattr(config, "sliding_window", None), int):
        limits.append((window, f"its attention slides over {window} tokens"))
    chunked = "chunked_attention" in kinds if kinds else True
    if chunked and isinstance(chunk := getattr(config, "attention_chunk_size", None), int):
        limits.append((chunk, f"its attention is cut into chunks of {chunk} tokens"))
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for part in (rope, *rope.values()):
        if isinstance(part, dict) and part.get("rope_type") in ("dynamic", "longrope"):
            length = int(part.get("original_max_position_embeddings") or config.max_position_embeddings)
            limits.append((length, f"its positions change after {length} tokens"))
    return min(limits)


def _trial_pairs(max_length: int) -> list[Pair]:
    """Sequences for a small plan, in which a common prefix is cached and branches follow it."""
    length = min(COMMON + 4, max_length - 3)  # long enough for attention in two parts
    prefix = [5 + number % 7 for number in range(length)]
    return [Pair(array("i", [*prefix, *end]), 1 + length // 2) for end in ([10, 11, 12], [10, 13])]


@torch.inference_mode()
def _score_alone(head: LMHead, pair: Pair) -> tuple[float, int]:
    """The log-likelihood of a pair that is computed by the model alone, and the bytes of a token's keys and values."""
    inputs = pair.tokens[:-1]
    positions = torch.arange(pair.start - 1, len(inputs))
    ids, cache = torch.tensor([inputs.tolist()], device=device_of(head.model)), DynamicCache()
    rows = torch.zeros_like(positions)
    states = head.hidden_states(rows, positions, input_ids=ids, past_key_values=cache, use_cache=True)
    logprobs, _ = token_logprobs(head.logits(states), np.arange(len(positions)), pair.tokens[pair.start :])
    return float(logprobs.sum()), sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) // len(inputs)


def _agrees(forward: Forward, trial: list[Pair], expected: float) -> bool:
    """Whether the last pair gets the same log-likelihood by plan, in a pass with others, as alone."""
    size = len(trial[-1].tokens) - 6  # so that the end of the prefix is in a second pass, with the branches
    try:
        outputs = dict(score_by_plan(forward, trial, size=size, budget=64, counters=Counters()))
    except TRIAL_ERRORS:
        return False
    loglikelihood = outputs[len(trial) - 1].loglikelihood
    return abs(loglikelihood - expected) <= _tolerance(forward.head) * max(1.0, abs(expected))


def _candidate_modes(head: LMHead) -> Iterator[Mode]:
    """The modes that are worth a trial, fastest first."""
    model = head.model
    if model._supports_attention_backend and is_available(device_of(model)):
        if head.separable and has_standard_layers(model):
            yield Mode.STANDARD_LAYERS
        yield Mode.TREE_ATTENTION
    yield Mode.MASKED


def _tolerance(head: LMHead) -> float:
    return 1e-4 if head.model.dtype in (torch.float32, torch.float64) else 3e-2
