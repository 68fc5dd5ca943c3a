"""Attention of our own in place of a model's: transformers calls it in every layer of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from multiform.inference.device import device_of

NAME = "multiform"
#: What some models do to their attention, which this one does not.
FOREIGN = ("softcap", "s_aux", "sinks", "position_bias", "head_mask")

#: From the number of a layer, its queries, keys and values (row, head, token, dimension) and the scale of
#: their products to the output, in the same order of dimensions.
Attend: TypeAlias = Callable[[int, Tensor, Tensor, Tensor, float], Tensor]

_attend: ContextVar[Attend] = ContextVar("attend")


@contextmanager
def attention(model: PreTrainedModel, attend: Attend) -> Iterator[None]:
    """Within this context, the model's layers call `attend`."""
    config = model.config.get_text_config()
    usual = config._attn_implementation
    token = _attend.set(attend)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
        _attend.reset(token)


def unmasked(model: PreTrainedModel) -> Tensor:
    """A mask that says nothing, in the shape that models hand on to their attention as it is."""
    return torch.zeros(1, 1, 1, 1, device=device_of(model), dtype=model.dtype)


def _forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any
) -> tuple[Tensor, None]:
    if any(options.get(name) is not None for name in FOREIGN):
        raise NotImplementedError("this kind of attention")
    scaling = options.get("scaling")
    scale = float(scaling) if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    output = _attend.get()(layer, query, key, value, scale)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _forward)
