"""ModelSource: which model to load, and how: the arguments of `hf`, under the names of lm-eval's model.

Weights have a number type, a device, a quantization and a placement. Wrong values, and arguments of lm-eval that have
no effect or are refused, are found before anything is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download

from multiform.errors import ModelError, UsageError, nearest
from multiform.models.arguments import ArgumentRules

logger = logging.getLogger("multiform")

#: Names of number types.
DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")
#: Settings of four-bit weights, under the names of transformers.
FOUR_BIT = ("bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant")
#: Settings of a device map.
MEMORY = ("max_memory", "max_memory_per_gpu", "max_cpu_memory", "offload_folder")
QUANT_TYPES = ("fp4", "nf4")
#: Small files that tell what a hub repository has.
CONFIG_FILES = ["config.json", "tokenizer_config.json", "adapter_config.json"]
#: Kinds of models, with lm-eval's names; by default a model's configuration tells.
BACKENDS = ("default", "causal", "seq2seq")
#: What a folder must have, by the argument that names it.
FOLDERS = {"pretrained": "config.json and weights", "tokenizer": "a tokenizer", "peft": "adapter_config.json"}
#: Other arguments of lm-eval's `hf` model.
RULES = ArgumentRules.of("hf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Which model to load, and how; the fields have the names of lm-eval's `hf` model.

    The last ones are about quantization by bitsandbytes, and how much of each device's memory a device map may use.
    """

    pretrained: str = ""
    revision: str = "main"
    subfolder: str = ""
    gguf_file: str | None = None
    dtype: str = "auto"
    device: str | None = None
    tokenizer: str | None = None
    add_bos_token: bool | None = None
    trust_remote_code: bool = False
    peft: str | None = None
    parallelize: bool = False
    device_map: str | dict[str, Any] | None = None
    attn_implementation: str | None = None
    backend: str = "default"
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
        if not self.pretrained:
            hint = "give a folder or a hub name: --model_args pretrained=DIR"
            raise UsageError("the model 'hf' needs the argument 'pretrained'", hint=hint)
        if self.backend not in BACKENDS:
            hint = nearest(self.backend, BACKENDS, listed="backends")
            raise UsageError(f"unknown backend '{self.backend}'", hint=hint)

    def set_options(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of the options that are set."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def quantization(self) -> dict[str, Any]:
        """The options that change outputs; empty where weights are loaded as they are."""
        bits = {name: True for name in ("load_in_8bit", "load_in_4bit") if getattr(self, name)}
        return {**bits, **self.set_options(FOUR_BIT)} if bits else {}


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
        raise UsageError(f"device '{name}' cannot be used: {first_line(error)}", hint="try device=cpu") from error
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


def quantization_config(options: ModelSource) -> transformers.BitsAndBytesConfig | None:
    """The quantization config for transformers; None where no quantization is requested."""
    four_bit, settings = options.set_options(FOUR_BIT), options.quantization
    if options.load_in_4bit and options.load_in_8bit:
        raise UsageError("load_in_4bit and load_in_8bit do not go together", hint="give one of them")
    if four_bit and not options.load_in_4bit:
        raise UsageError(f"{next(iter(four_bit))} needs load_in_4bit=True", hint="add it, or leave both out")
    if not settings:
        return None
    kind = options.bnb_4bit_quant_type
    if kind is not None and kind not in QUANT_TYPES:
        message = f"unknown bnb_4bit_quant_type '{kind}'"
        raise UsageError(message, hint=nearest(str(kind), QUANT_TYPES, listed="types"))
    if options.bnb_4bit_compute_dtype == "auto":
        raise UsageError("bnb_4bit_compute_dtype must be a number type, not 'auto'", hint="try bfloat16")
    if options.bnb_4bit_compute_dtype is not None:
        settings["bnb_4bit_compute_dtype"] = pick_dtype(options.bnb_4bit_compute_dtype, torch.device("cpu"))
    if find_spec("bitsandbytes") is None:
        message = f"{next(iter(settings))} needs the package 'bitsandbytes'"
        raise ModelError(message, hint="run: pip install bitsandbytes")
    return transformers.BitsAndBytesConfig(**settings)


def placement(source: ModelSource, device_map: Any) -> dict[str, Any]:
    """The loading options of transformers for where weights go; empty without a device map."""
    if not device_map:
        for name in source.set_options(MEMORY):
            logger.info("the model argument '%s' changes nothing without parallelize=True or a device_map", name)
        return {}
    options: dict[str, Any] = {"device_map": device_map, **source.set_options(("offload_folder",))}
    if memory := _memory(source):
        options["max_memory"] = memory
    return options


def _memory(options: ModelSource) -> dict[int | str, int | str]:
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


def local_folder(name: str, argument: str = "pretrained") -> Path | None:
    """The folder that an argument names, or None where it is a name on the hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or name.startswith((".", "~")) or path.exists() or name.count("/") > 1:
        problem = "is a file" if path.exists() else "does not exist"
        hint = f"give a folder with {FOLDERS[argument]}, or a hub name like 'org/name'"
        if path.suffix == ".gguf" and path.exists():
            hint = f"give pretrained={path.parent},gguf_file={path.name}"
        raise ModelError(f"folder '{name}' {problem}", where=argument, hint=hint)
    return None


def hub_commit(name: str, revision: str) -> str:
    """The commit that a branch or tag of a hub repository means now; offline, the one that is cached."""
    # Any file will do: this asks for the commit, and downloads what is needed anyway.
    return Path(snapshot_download(name, revision=revision, allow_patterns=CONFIG_FILES)).name


def file_options(source: ModelSource, folder: Path | None) -> dict[str, Any]:
    """The options for the files of a source that all loaders of transformers take."""
    options: dict[str, Any] = {"trust_remote_code": source.trust_remote_code, "subfolder": source.subfolder}
    if folder:
        options["local_files_only"] = True
    else:
        options["revision"] = source.revision
    if source.gguf_file:
        options["gguf_file"] = source.gguf_file
    return options


def check_gguf_file(folder: Path, name: str) -> None:
    """Raise a ModelError where a folder has no GGUF file of that name, or the package that reads it is missing."""
    if not (folder / name).is_file():
        names = sorted(path.name for path in folder.glob("*.gguf"))
        raise ModelError(f"no file '{name}' in {folder}", where="gguf_file", hint=nearest(name, names, listed="files"))
    if find_spec("gguf") is None:
        raise ModelError("a GGUF file needs the package 'gguf'", where="gguf_file", hint="run: pip install gguf")


@contextmanager
def model_errors(source: ModelSource, folder: Path | None) -> Iterator[None]:
    """Turn any failure of a loader into a ModelError that says what was tried."""
    try:
        yield
    except (ModelError, UsageError):
        raise
    except Exception as error:  # loaders raise almost every kind, down to KeyError
        if "trust_remote_code" in str(error) and not source.trust_remote_code:
            raise ModelError(
                "the model has code of its own, which runs only with your consent",
                where=source.pretrained,
                hint="read its .py files, and give trust_remote_code=True if you trust them",
            ) from error
        reason = first_line(error)
        if folder and not (folder / source.subfolder / "config.json").exists() and not source.gguf_file:
            reason = "the folder has no config.json"
        tried = f"folder {folder}" if folder else f"hub name '{source.pretrained}' at '{source.revision}'"
        raise ModelError(
            f"cannot load the model: {reason}",
            where=source.pretrained,
            hint=f"tried {tried} with transformers {transformers.__version__}",
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
