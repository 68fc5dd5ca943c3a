"""Whether a model can run plans: what is needed for that, and a trial that tells."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from multiform.inference.counters import Counters
from multiform.inference.decode.batch import has_plain_cache
from multiform.inference.decode.shared import SharedState
from multiform.inference.device import device_of
from multiform.inference.forward import Passes, Way
from multiform.inference.layers import are_common
from multiform.inference.lm_head import Head
from multiform.inference.packed import COMMON, is_available
from multiform.inference.scoring.by_plan import score_by_plan
from multiform.inference.scoring.loglikelihood import token_scores
from multiform.inference.sequences import Pair

#: Implementations of attention that take a mask in four dimensions.
ATTENTION = ("sdpa", "eager")
#: What a model raises that does not take what a plan gives it.
TRIAL_ERRORS = (AttributeError, IndexError, NotImplementedError, TypeError, ValueError, RuntimeError)
#: A window of fewer tokens is not worth a plan.
SHORTEST = 8
NEEDED = ("attention_mask", "position_ids", "past_key_values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """For sequences of up to `longest` tokens a model runs plans; `reason` says why not for others.

    `way` is the one that computes least among those that give the model's results, and `token_bytes`
    the memory that the keys and values of one token take.
    """

    longest: int
    reason: str = ""
    token_bytes: int = 1
    way: Way = Way.MASKED


def support(head: Head) -> Support:
    """What a model can do with plans."""
    model = head.model
    if not has_plain_cache(model):
        return Support(longest=0, reason="it keeps no keys and values for each token")
    if model.config._attn_implementation not in ATTENTION:
        return Support(longest=0, reason=f"its attention is '{model.config._attn_implementation}'")
    accepted = inspect.signature(model.base_model.forward).parameters
    if missing := [name for name in NEEDED if name not in accepted]:
        return Support(longest=0, reason=f"it takes no '{missing[0]}'")
    longest, reason = _reach(model.config.get_text_config())
    if longest < SHORTEST:
        return Support(longest=0, reason=reason)
    trial = _trial(longest)
    expected, token_bytes = _alone(head, trial[-1])
    way = next((way for way in _ways(head) if _agrees(Passes(head, way), trial, expected)), None)
    if way is None:
        return Support(longest=0, reason="it gives other results with a prefix tree")
    return Support(longest=longest, reason=reason, token_bytes=token_bytes, way=way)


@torch.inference_mode()
def can_decode(passes: Passes) -> bool:
    """Whether the next tokens of texts that share a prefix are those of each text alone."""
    head = passes.head
    if not head.model._supports_attention_backend:
        return False
    rows = [[5, 6, 7, 8, *own] for own in ([9, 10], [11], [12, 13, 14])]
    state = SharedState(passes, Counters(), size=4)
    try:
        state.admit(rows, [4, 4, 0])
        together = state.step([15, 16, 17])
    except TRIAL_ERRORS:
        return False
    alone = [
        head.model(input_ids=torch.tensor([[*row, token]], device=device_of(head.model)), use_cache=False).logits[0, -1]
        for row, token in zip(rows, (15, 16, 17), strict=True)
    ]
    expected = torch.stack(alone).float()
    return bool((together - expected).abs().max() <= _tolerance(head) * expected.abs().max().clamp(min=1.0))


def _reach(config: Any) -> tuple[int, str]:
    """How long a sequence may be until its tokens stop seeing all before them at their plain positions."""
    found: list[tuple[int, str]] = [(2**31, "")]
    kinds = getattr(config, "layer_types", None)
    sliding = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    if sliding and isinstance(window := getattr(config, "sliding_window", None), int):
        found.append((window, f"its attention slides over {window} tokens"))
    chunked = "chunked_attention" in kinds if kinds else True
    if chunked and isinstance(chunk := getattr(config, "attention_chunk_size", None), int):
        found.append((chunk, f"its attention is cut into chunks of {chunk} tokens"))
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for part in (rope, *rope.values()):
        if isinstance(part, dict) and part.get("rope_type") in ("dynamic", "longrope"):
            length = int(part.get("original_max_position_embeddings") or config.max_position_embeddings)
            found.append((length, f"its positions change after {length} tokens"))
    return min(found)


def _trial(longest: int) -> list[Pair]:
    """Sequences with a common beginning, for a small plan: it is kept, and what follows is packed."""
    length = min(COMMON + 4, longest - 3)  # so that attention in parts is tried, too
    start = [5 + number % 7 for number in range(length)]
    return [Pair(array("i", [*start, *end]), 1 + length // 2) for end in ([10, 11, 12], [10, 13])]


@torch.inference_mode()
def _alone(head: Head, pair: Pair) -> tuple[float, int]:
    """The log-likelihood of a pair that the model reads as it is, and the memory of a token's keys and values."""
    read = pair.tokens[:-1]
    places = torch.arange(pair.start - 1, len(read))
    ids, cache = torch.tensor([read.tolist()], device=device_of(head.model)), DynamicCache()
    states = head.states(torch.zeros_like(places), places, input_ids=ids, past_key_values=cache, use_cache=True)
    logprobs, _ = token_scores(head.logits(states), np.arange(len(places)), pair.tokens[pair.start :])
    return float(logprobs.sum()), sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) // len(read)


def _agrees(passes: Passes, trial: list[Pair], expected: float) -> bool:
    """Whether the last pair, which a pass has beside others, scores in a plan what it scores alone."""
    size = len(trial[-1].tokens) - 6  # so that the end of the common beginning is in a second pass, with the branches
    try:
        planned = dict(score_by_plan(passes, trial, size=size, budget=64, counters=Counters()))
    except TRIAL_ERRORS:
        return False
    found = planned[len(trial) - 1].loglikelihood
    return abs(found - expected) <= _tolerance(passes.head) * max(1.0, abs(expected))


def _ways(head: Head) -> Iterator[Way]:
    """The ways that are worth a trial."""
    model = head.model
    if model._supports_attention_backend and is_available(device_of(model)):
        if head.separable and are_common(model):
            yield Way.LEAN
        yield Way.PACKED
    yield Way.MASKED


def _tolerance(head: Head) -> float:
    return 1e-4 if head.model.dtype in (torch.float32, torch.float64) else 3e-2
