"""The plain forward pass: one sequence alone, computed by nothing but the model's own code.

It is the reference for everything else: faster methods have to give the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from multiform.models.torch.device import device_of

#: The end of the name under which a module keeps the rotary frequencies that it began with.
_ORIGINAL = "original_inv_freq"


@torch.inference_mode()
def plain_logits(model: PreTrainedModel, tokens: Sequence[int], *, last: int) -> Tensor:
    """The float32 logits (token, vocabulary) at the last tokens of a sequence, without a cache."""
    reset_positions(model)
    ids = torch.tensor([list(tokens)], device=device_of(model))
    options = accepted(model.forward, use_cache=False, logits_to_keep=last)
    logits: Tensor = model(input_ids=ids, **options).logits[0, -last:].float()
    return logits


def accepted(forward: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The options that a model's `forward` takes; some architectures lack even the common ones.

    >>> accepted(lambda input_ids, use_cache=None: None, use_cache=False, position_ids=3)
    {'use_cache': False}
    """
    names = parameters(forward)
    return {name: value for name, value in options.items() if name in names}


def parameters(forward: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters."""
    return _parameters(getattr(forward, "__func__", forward))


@lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def reset_positions(model: PreTrainedModel) -> None:
    """Forget the longest sequence so far, where rotary positions are scaled by it (dynamic RoPE).

    Otherwise the numbers of a sequence would depend on those that were computed before it.
    """
    for part in model.modules():
        for name in [name for name in (*part._buffers, *vars(part)) if name.endswith(_ORIGINAL)]:
            _reset(part, name.removesuffix(_ORIGINAL))


def _reset(part: nn.Module, prefix: str) -> None:
    """Reset the rotary frequencies of one kind of layer, whose name is the prefix of its attributes."""
    length = getattr(part, "original_max_seq_len", None)
    if length is not None and getattr(part, f"{prefix}max_seq_len_cached", length) != length:
        frequencies: Tensor = getattr(part, prefix + _ORIGINAL)
        part.register_buffer(f"{prefix}inv_freq", frequencies, persistent=False)
        setattr(part, f"{prefix}max_seq_len_cached", length)
