"""How weights are loaded: number type, device, quantization and placement, with the names of lm-eval's `hf` model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, get_type_hints

import torch
import transformers

from multiform.errors import ModelError, UsageError, nearest
from multiform.models.arguments import check_types

logger = logging.getLogger("multiform")

#: Names of number types.
DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")
#: Settings of four-bit weights, under the names of transformers.
FOUR_BIT = ("bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant")
#: Settings of a device map.
MEMORY = ("max_memory", "max_memory_per_gpu", "max_cpu_memory", "offload_folder")
QUANT_TYPES = ("fp4", "nf4")
#: The packages that transformers needs for checkpoints that were saved quantized, by the names that pip has for them,
#: each with the module that it installs.
QUANTIZERS: dict[str, dict[str, str]] = {
    "aqlm": {"aqlm[cpu]": "aqlm"},
    "auto-round": {"auto-round": "auto_round"},
    "awq": {"gptqmodel": "gptqmodel"},
    "bitsandbytes": {"bitsandbytes": "bitsandbytes"},
    "compressed-tensors": {"compressed-tensors": "compressed_tensors"},
    "eetq": {"kernels": "kernels"},
    "gptq": {"optimum": "optimum", "gptqmodel": "gptqmodel"},
    "hqq": {"hqq": "hqq"},
    "quanto": {"optimum-quanto": "optimum.quanto"},
    "torchao": {"torchao": "torchao"},
    "vptq": {"vptq": "vptq"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOptions:
    """Quantization by bitsandbytes, and how much of each device's memory a device map may use."""

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
        check_types(get_type_hints(WeightOptions), {name: getattr(self, name) for name in NAMES})

    def set_options(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of the options that are set."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def quantization(self) -> dict[str, Any]:
        """The options that change outputs; empty where weights are loaded as they are."""
        bits = {name: True for name in ("load_in_8bit", "load_in_4bit") if getattr(self, name)}
        return {**bits, **self.set_options(FOUR_BIT)} if bits else {}


#: The names of all options.
NAMES = tuple(field.name for field in fields(WeightOptions))


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
    """The number type of that name; "auto" is that of the checkpoint, and float32 on a CPU."""
    name = str(name).removeprefix("torch.")
    if name == "auto":
        # CPUs without half-precision units run bfloat16 many times slower than float32.
        return torch.float32 if device.type == "cpu" else "auto"
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"unknown dtype '{name}'", hint=nearest(name, DTYPES, listed="dtypes"))
    return dtype


def quantization_config(options: WeightOptions) -> transformers.BitsAndBytesConfig | None:
    """The quantization config for transformers; None where no quantization is requested."""
    four_bit = options.set_options(FOUR_BIT)
    if options.load_in_4bit and options.load_in_8bit:
        raise UsageError("load_in_4bit and load_in_8bit do not go together", hint="give one of them")
    if four_bit and not options.load_in_4bit:
        raise UsageError(f"{next(iter(four_bit))} needs load_in_4bit=True", hint="add it, or leave both out")
    if not options.load_in_4bit and not options.load_in_8bit:
        return None
    kind = options.bnb_4bit_quant_type
    if kind is not None and kind not in QUANT_TYPES:
        message = f"unknown bnb_4bit_quant_type '{kind}'"
        raise UsageError(message, hint=nearest(str(kind), QUANT_TYPES, listed="types"))
    if options.bnb_4bit_compute_dtype == "auto":
        raise UsageError("bnb_4bit_compute_dtype must be a number type, not 'auto'", hint="try bfloat16")
    if options.bnb_4bit_compute_dtype is not None:
        four_bit["bnb_4bit_compute_dtype"] = pick_dtype(options.bnb_4bit_compute_dtype, torch.device("cpu"))
    if find_spec("bitsandbytes") is None:
        name = "load_in_4bit" if options.load_in_4bit else "load_in_8bit"
        raise ModelError(f"{name} needs the package 'bitsandbytes'", hint="run: pip install bitsandbytes")
    bits = {"load_in_4bit": True} if options.load_in_4bit else {"load_in_8bit": True}
    return transformers.BitsAndBytesConfig(**bits, **four_bit)


def check_quantizer(method: str, *, where: str) -> None:
    """Raise a ModelError where a package for checkpoints that are quantized by this method is missing."""
    missing = [package for package, module in QUANTIZERS.get(method, {}).items() if not _is_installed(module)]
    if missing:
        message = f"the checkpoint is quantized ('{method}'), which needs {_quoted(missing)}"
        hint = f"run: pip install {' '.join(missing)}; or name a checkpoint that is not quantized"
        raise ModelError(message, where=where, hint=hint)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that the module would be in
        return False


def _quoted(packages: list[str]) -> str:
    kind = "package" if len(packages) == 1 else "packages"
    return f"the {kind} {' and '.join(repr(package) for package in packages)}"


def placement(weight_options: WeightOptions, device_map: Any) -> dict[str, Any]:
    """The loading options of transformers for where weights go; empty without a device map."""
    if not device_map:
        for name in weight_options.set_options(MEMORY):
            logger.info("the model argument '%s' changes nothing without parallelize=True or a device_map", name)
        return {}
    options: dict[str, Any] = {"device_map": device_map}
    if memory := _memory(weight_options):
        options["max_memory"] = memory
    if weight_options.offload_folder:
        options["offload_folder"] = weight_options.offload_folder
    return options


def _memory(options: WeightOptions) -> dict[int | str, int | str]:
    """The most that each device may hold; `max_memory` of a single device wins over the limits for a kind of device.

    A device that is left out gets nothing, so the GPUs are listed with all they have where only the CPU is limited.
    """
    memory: dict[int | str, int | str] = {}
    gpus = range(torch.cuda.device_count())
    if options.max_memory_per_gpu is not None:
        memory.update(dict.fromkeys(gpus, options.max_memory_per_gpu))
    elif options.max_cpu_memory is not None:
        memory.update({gpu: int(torch.cuda.mem_get_info(gpu)[0]) for gpu in gpus})
    if options.max_cpu_memory is not None:
        memory["cpu"] = options.max_cpu_memory
    if options.max_memory is not None and not isinstance(options.max_memory, Mapping):
        message = f"max_memory must say how much each device holds, not '{options.max_memory}'"
        raise UsageError(message, hint='give JSON: {"max_memory": {"0": "20GB", "cpu": "40GB"}}')
    for device, amount in (options.max_memory or {}).items():
        memory[int(device) if str(device).isdecimal() else device] = amount
    return memory
