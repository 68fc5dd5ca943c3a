"""The device of a model: its memory, how many rows and tokens go into one batch or forward pass, and matrix products.

torch computes products in float32 with MKL, which uses AVX2 on CPUs that are not Intel's, even if they have AVX-512:
less than half of what such a CPU can do. oneDNN, which comes with torch as well, uses what the CPU has. It takes the
weights as they are, without a copy, and sums in another order than lm-eval's products.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from multiform.errors import ModelError, UsageError
from multiform.models.instruction_set import read_cpuinfo
from multiform.models.torch.plan import BatchLimits
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")
#: Names of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The largest value that glibc accepts.
_MMAP_BYTES = 2**25
_TRIM_BYTES = 2**30
#: Where Linux reports the memory of the whole machine, and that of the container.
_SYSTEM, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
#: Assumed to be free where the system does not say: 4 GiB.
_UNKNOWN = 2**32
HALF = (torch.float16, torch.bfloat16)
#: Padded tokens in one prefill: a bound for memory where the number of rows is fixed.
PREFILL_TOKENS = 16384
#: With "auto", a batch of that many tokens keeps the device busy; more would only be more padding.
BUSY_TOKENS = {"cpu": 1024}
#: Tokens in a forward pass of a plan: enough to keep the device busy, and none of them is padding.
PASS_TOKENS = {"cpu": 512}
OTHER_PASS_TOKENS = 4096
#: Sequences that are decoded together where `batch_size` is "auto". Four times as many take two thirds of the time
#: and, for a small model, half a gigabyte more.
DECODE_ROWS = {"cpu": 16}
#: Units of an amount of memory.
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
#: The cached prefix, and the sequences being decoded, may each take one part in that many of the free memory.
BUDGET_SHARE = 4
#: With "auto", the tokens of all sequences being decoded together.
DECODE_TOKENS = 32768
#: Values of the model argument `matmul`.
MATMULS = ("torch", "onednn")
Item = TypeVar("Item")
Result = TypeVar("Result")


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


def batch_limits(
    batch_size: int | str, max_batch_size: int, max_length: int, device: torch.device
) -> tuple[BatchLimits, BatchLimits]:
    """The limits for scoring in batches, and for generation, where a sequence's tokens count until it is finished.

    `batch_size` is the argument: a number of rows, or "auto".
    """
    rows = fixed_rows(batch_size)
    if rows is not None:
        return BatchLimits(rows, PREFILL_TOKENS), BatchLimits(rows, rows * max_length)
    scoring = BatchLimits(max_batch_size, BUSY_TOKENS.get(device.type, PREFILL_TOKENS))
    return scoring, BatchLimits(min(max_batch_size, DECODE_ROWS.get(device.type, max_batch_size)), DECODE_TOKENS)


def fixed_rows(batch_size: int | str) -> int | None:
    """The number of rows of a `batch_size` argument, or None for "auto"."""
    text = str(batch_size)
    if text.partition(":")[0] == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(f"batch_size must be a positive number or 'auto', not '{batch_size}'", hint="try batch_size=8")


def prefix_budget(budget: int | str | None, token_bytes: int, device: torch.device) -> int:
    """How many tokens, of `token_bytes` each, may stay cached between forward passes.

    A number is that many tokens; a string such as "500MB" or "2GB" is an amount of memory. None is a
    share of the memory that is free.
    """
    token_bytes = max(1, token_bytes)
    if budget is None:
        return free_memory(device) // BUDGET_SHARE // token_bytes
    number, unit = parse_budget(budget)
    return number * UNITS[unit] // token_bytes if unit else number


def parse_budget(budget: int | str) -> tuple[int, str]:
    """The number and the unit, if any, of a `prefix_budget` argument.

    >>> parse_budget("500MB"), parse_budget(4096)
    ((500, 'MB'), (4096, ''))
    """
    text = str(budget).strip().upper()
    number, unit = (text[:-2], text[-2:]) if text.endswith(tuple(UNITS)) else (text, "")
    if not number.isdecimal():
        message = f"prefix_budget must be a number of tokens or an amount of memory, not '{budget}'"
        raise UsageError(message, hint="try prefix_budget=4096 or prefix_budget=500MB")
    return int(number), unit


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    limits: BatchLimits,
    run: Callable[[Sequence[Item]], Result],
) -> Iterator[Result]:
    """The result of `run` for each batch of items, in an order in which neighbours have similar lengths.

    A batch that does not fit into memory is tried again at half its size, and so are those after it;
    earlier results are not lost. When a stop is requested, no further batch begins.
    """
    completed = 0
    while completed < len(items) and not stop_requested():
        candidates = items[completed : completed + limits.rows]
        longest = max(map(length, candidates))
        batch = candidates[: limits.fit(longest)]
        result = run_in_memory(partial(run, batch))
        if result is None:
            limits = halve_limits(limits, len(batch), longest)
            continue
        yield result
        completed += len(batch)


def run_in_memory(run: Callable[[], Result]) -> Result | None:
    """The result of `run`, or None when it ran out of memory."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Only here, without the exception and the tensors in its frames, can the memory be freed.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def halve_limits(limits: BatchLimits, rows: int, length: int) -> BatchLimits:
    """Limits under which half of that many rows go into a batch."""
    if rows == 1:
        raise ModelError(
            f"one sequence of {length} tokens does not fit into memory",
            hint="set a smaller max_length, or another dtype or device",
        )
    logger.warning("out of memory with %d rows of %d tokens; going on with half of that", rows, length)
    return replace(limits, tokens=(rows // 2) * length)


def halve_pass(size: int) -> int:
    """The size of a forward pass after one that did not fit into memory."""
    if size == 1:
        raise ModelError("one token does not fit into memory", hint="set another dtype or device")
    logger.warning("out of memory with passes of %d tokens; going on with half of that", size)
    return size // 2


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "can't allocate memory", "not enough memory"))


def is_mkl_slow() -> bool:
    """Whether MKL does not use what this CPU has, and oneDNN does."""
    cpu = read_cpuinfo()
    return "avx512f" in cpu.get("flags", "") and cpu.get("vendor_id") != "GenuineIntel" and torch._C.has_mkl


def use_onednn(model: PreTrainedModel) -> None:
    """Have the linear layers of a model on a CPU compute in float32 by oneDNN; in half precision they do already."""
    is_available = torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if device_of(model).type != "cpu" or not is_available:
        raise UsageError("matmul=onednn needs a CPU, and torch with oneDNN", hint="leave it out")
    for layer in model.modules():
        # Layers of other packages, such as quantized ones, and weights that are moved for each pass compute as they do.
        if type(layer) is nn.Linear and layer.weight.dtype is torch.float32 and "forward" not in vars(layer):
            layer.forward = partial(_linear, layer)  # type: ignore[method-assign]


def _linear(layer: nn.Linear, inputs: Tensor) -> Tensor:
    if torch.is_grad_enabled() or not inputs.numel() or not inputs.is_cpu or inputs.dtype is not torch.float32:
        return functional.linear(inputs, layer.weight, layer.bias)
    output: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, layer.weight, layer.bias, "none", [], "")
    return output
