"""How weights are made smaller as they are loaded, and where they go; the names are those of lm-eval's `hf` model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, get_type_hints

import torch
import transformers

from multiform.errors import ModelError, UsageError, nearest
from multiform.inference.device import pick_dtype
from multiform.models.arguments import check_types

logger = logging.getLogger("multiform")

#: Settings of four-bit weights, with the names that transformers has for them.
FOUR_BIT = ("bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant")
#: Settings of a device map.
MEMORY = ("max_memory", "max_memory_per_gpu", "max_cpu_memory", "offload_folder")
QUANT_TYPES = ("fp4", "nf4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Quantization by bitsandbytes, and the memory that a device map may use of each device."""

    load_in_8bit: bool = False
    load_in_4bit: bool = False
    bnb_4bit_quant_type: str | None = None
    bnb_4bit_compute_dtype: str | None = None
    bnb_4bit_use_double_quant: bool | None = None
    max_memory: Any = None
    max_memory_per_gpu: int | str | None = None
    max_cpu_memory: int | str | None = None
    offload_folder: str | None = None

    def __post_init__(self) -> None:
        check_types(get_type_hints(Loading), {name: getattr(self, name) for name in NAMES})

    def given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of the settings that were given."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def quantization(self) -> dict[str, Any]:
        """The settings that change answers; nothing where weights are loaded as they are."""
        bits = {name: True for name in ("load_in_8bit", "load_in_4bit") if getattr(self, name)}
        return {**bits, **self.given(FOUR_BIT)} if bits else {}


#: The names of all settings.
NAMES = tuple(field.name for field in fields(Loading))


def quantization_config(loading: Loading) -> transformers.BitsAndBytesConfig | None:
    """What transformers is told about quantization; None where nothing was asked for."""
    own = loading.given(FOUR_BIT)
    if loading.load_in_4bit and loading.load_in_8bit:
        raise UsageError("load_in_4bit and load_in_8bit do not go together", hint="give one of them")
    if own and not loading.load_in_4bit:
        raise UsageError(f"{next(iter(own))} needs load_in_4bit=True", hint="add it, or leave both out")
    if not loading.load_in_4bit and not loading.load_in_8bit:
        return None
    kind = loading.bnb_4bit_quant_type
    if kind is not None and kind not in QUANT_TYPES:
        what = f"unknown bnb_4bit_quant_type '{kind}'"
        raise UsageError(what, hint=nearest(str(kind), QUANT_TYPES, listed="types"))
    if loading.bnb_4bit_compute_dtype == "auto":
        raise UsageError("bnb_4bit_compute_dtype must be a number type, not 'auto'", hint="try bfloat16")
    if loading.bnb_4bit_compute_dtype is not None:
        own["bnb_4bit_compute_dtype"] = pick_dtype(loading.bnb_4bit_compute_dtype, torch.device("cpu"))
    if find_spec("bitsandbytes") is None:
        name = "load_in_4bit" if loading.load_in_4bit else "load_in_8bit"
        raise ModelError(f"{name} needs the package 'bitsandbytes'", hint="run: pip install bitsandbytes")
    bits = {"load_in_4bit": True} if loading.load_in_4bit else {"load_in_8bit": True}
    return transformers.BitsAndBytesConfig(**bits, **own)


def placement(loading: Loading, device_map: Any) -> dict[str, Any]:
    """What transformers is told about where weights go; without a device map, that is nothing."""
    given = loading.given(MEMORY)
    if not device_map:
        for name in given:
            logger.info("the model argument '%s' changes nothing without parallelize=True or a device_map", name)
        return {}
    options: dict[str, Any] = {"device_map": device_map}
    if memory := _memory(loading):
        options["max_memory"] = memory
    if loading.offload_folder:
        options["offload_folder"] = loading.offload_folder
    return options


def _memory(loading: Loading) -> dict[int | str, int | str]:
    """The most that each device may hold; what is named for one device alone wins over what is for all of a kind.

    A device that is left out gets nothing, so that the GPUs come with all they have where only the CPU is named.
    """
    found: dict[int | str, int | str] = {}
    gpus = range(torch.cuda.device_count())
    if loading.max_memory_per_gpu is not None:
        found.update(dict.fromkeys(gpus, loading.max_memory_per_gpu))
    elif loading.max_cpu_memory is not None:
        found.update({gpu: int(torch.cuda.mem_get_info(gpu)[0]) for gpu in gpus})
    if loading.max_cpu_memory is not None:
        found["cpu"] = loading.max_cpu_memory
    if loading.max_memory is not None and not isinstance(loading.max_memory, Mapping):
        what = f"max_memory must say how much each device holds, not '{loading.max_memory}'"
        raise UsageError(what, hint='give JSON: {"max_memory": {"0": "20GB", "cpu": "40GB"}}')
    for device, amount in (loading.max_memory or {}).items():
        found[int(device) if str(device).isdecimal() else device] = amount
    return found
