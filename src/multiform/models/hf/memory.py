"""How the C library hands memory to a model on a CPU."""

from __future__ import annotations

import ctypes
import platform

#: Names of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The largest that glibc takes.
_MMAP_BYTES = 2**25
_TRIM_BYTES = 2**30


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
