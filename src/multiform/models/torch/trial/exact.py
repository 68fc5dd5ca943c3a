"""Trials in float32: the rounding of half precision would hide a wrong window behind a difference of a few percent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.torch.device import device_of, free_memory

logger = logging.getLogger("multiform")

HALF = (torch.float16, torch.bfloat16)
#: The memory that is needed beyond the weights of a model in half precision, as a multiple of them.
MORE_MEMORY = 1.5


@contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Within this context, a model in half precision computes in float32, where its weights can be converted.

    They are converted in place, and afterwards have the same bits as before.
    """
    tensors = _half_tensors(model)
    if not tensors:
        yield
        return
    if reason := _obstacle(model, tensors):
        logger.warning(
            "the model is tried in %s, which hides differences of up to 3 %%: %s",
            str(model.dtype).removeprefix("torch."),
            reason,
        )
        yield
        return
    before = [(tensor, tensor.dtype) for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.float()
        yield
    finally:
        for tensor, dtype in before:
            tensor.data = tensor.data.to(dtype)


def _half_tensors(model: PreTrainedModel) -> list[Tensor]:
    """The weights and buffers in half precision; none where the model computes in another type."""
    if model.dtype not in HALF:
        return []
    return [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.dtype in HALF]


def _obstacle(model: PreTrainedModel, tensors: list[Tensor]) -> str:
    """Why the weights cannot be converted; empty where they can."""
    if getattr(model, "hf_quantizer", None) is not None or getattr(model, "is_quantized", False):
        return "its weights are quantized"
    if any(tensor.device.type == "meta" for tensor in model.parameters()):
        return "its weights are offloaded"
    needed = MORE_MEMORY * sum(tensor.nbytes for tensor in tensors)
    if needed > free_memory(device_of(model)):
        return f"there is no memory for {needed / 1e9:.1f} GB more"
    return ""
