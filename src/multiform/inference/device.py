"""Where a model runs, and in which number type."""

from __future__ import annotations

import logging

import torch
from transformers import PreTrainedModel

from multiform.errors import UsageError, nearest

logger = logging.getLogger("multiform")

DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")


def pick_device(name: str | None) -> torch.device:
    """The device of that name, or the fastest one that this machine has."""
    if name is not None and str(name).startswith("cuda") and not torch.cuda.is_available():
        logger.warning("there is no device '%s' on this machine; the model runs on the CPU", name)
        name = "cpu"
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device '{name}' cannot be used: {reason}", hint="try device=cpu") from error
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype | str:
    """The number type of that name; "auto" is the checkpoint's own, and float32 on a CPU."""
    name = str(name).removeprefix("torch.")
    if name == "auto":
        # CPUs without half-precision units run bfloat16 many times slower than float32.
        return torch.float32 if device.type == "cpu" else "auto"
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"unknown dtype '{name}'", hint=nearest(name, DTYPES, listed="dtypes"))
    return dtype


def device_of(model: PreTrainedModel) -> torch.device:
    """Where a model takes what it reads: the device of its first weights.

    Weights that wait on disk have none; they are brought to a device for every pass.
    """
    device: torch.device = model.device
    if device.type != "meta":
        return device
    place = getattr(getattr(model, "_hf_hook", None), "execution_device", None)
    return torch.device("cpu" if place is None else place)
