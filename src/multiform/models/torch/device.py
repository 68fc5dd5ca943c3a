"""The device that a model runs on, its memory, and the number type of a trial."""

from __future__ import annotations

import ctypes
import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

#: Names of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The largest value that glibc accepts.
_MMAP_BYTES = 2**25
_TRIM_BYTES = 2**30
#: Where Linux reports the memory of the whole machine, and that of the container.
_SYSTEM, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
#: Assumed to be free where the system does not say: 4 GiB.
_UNKNOWN = 2**32
logger = logging.getLogger("multiform")

HALF = (torch.float16, torch.bfloat16)
#: The memory that is needed beyond the weights of a model in half precision, as a multiple of them.
MORE_MEMORY = 1.5


def device_of(model: PreTrainedModel) -> torch.device:
    """The device on which a model expects its inputs: that of its first weights.

    Weights that are offloaded to disk have none; they are moved to a device for every forward pass.
    """
    device: torch.device = model.device
    if device.type != "meta":
        return device
    target = getattr(getattr(model, "_hf_hook", None), "execution_device", None)
    return torch.device("cpu" if target is None else target)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device. For a GPU it is copied from pinned memory, so that the host need not wait."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def free_memory(device: torch.device) -> int:
    """The bytes that are free on a device; on a CPU, what the machine or its container gives without swapping."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = _numbers(_SYSTEM, ":").get("MemAvailable")
    free = _UNKNOWN if available is None else available * 1024
    try:
        limit, used = (int((_CONTAINER / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    # The page cache counts as used until something else wants the memory.
    return min(free, max(0, limit - used + _numbers(_CONTAINER / "memory.stat").get("inactive_file", 0)))


def _numbers(path: Path, separator: str | None = None) -> dict[str, int]:
    """The first number on each line of a file by its name; an empty dict on systems without the file."""
    try:
        lines = [line.split(separator, 1) for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {name: int(rest.split()[0]) for name, rest in lines}


def hold_memory() -> None:
    """Keep freed memory in the process instead of returning it to the system, up to a gigabyte.

    A forward pass frees and allocates the same few hundred megabytes many times over. By default glibc
    returns them to the system in between, and a sixth of the time goes into getting the pages again.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    library.mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)


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
