"""The memory that a model has, and how the C library hands it out on a CPU."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import torch

#: Names of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The largest that glibc takes.
_MMAP_BYTES = 2**25
_TRIM_BYTES = 2**30

#: What Linux says of the memory of all processes, and of those in one container.
_SYSTEM, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
#: Taken for free where the system does not say: 4 GiB.
_UNKNOWN = 2**32


def free_memory(device: torch.device) -> int:
    """The bytes that are free on a device; on a CPU, those that the machine or the container gives without swapping."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    system = _numbers(_SYSTEM, ":").get("MemAvailable")
    free = _UNKNOWN if system is None else system * 1024
    try:
        limit, used = (int((_CONTAINER / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    # Files that were read count as used until something else wants the memory.
    return min(free, max(0, limit - used + _numbers(_CONTAINER / "memory.stat").get("inactive_file", 0)))


def _numbers(path: Path, separator: str | None = None) -> dict[str, int]:
    """The first number of each line of a file, by its name; nothing on systems that do not have the file."""
    try:
        lines = [line.split(separator, 1) for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {name: int(rest.split()[0]) for name, rest in lines}


def hold_memory() -> None:
    """Have freed memory stay with the process, up to a gigabyte.

    A pass frees and takes the same few hundred megabytes many times over. By default glibc gives
    them back to the system in between, and a sixth of the time goes into getting the pages anew.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    library.mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
