"""Arguments of lm-eval's `hf` model that are not needed here, or that need something else instead."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from multiform.errors import UsageError, nearest

logger = logging.getLogger("multiform")

#: Arguments that change nothing, and why.
_NOT_NEEDED = {
    "logits_cache": "prompts that begin alike are always computed once",
    "softmax_dtype": "probabilities are taken as precisely as lm-eval takes them",
    "low_cpu_mem_usage": "weights are always loaded that way",
    "use_fast_tokenizer": "the tokenizer is the one that transformers gives",
    "offload_folder": "nothing is offloaded to disk",
}
_QUANTIZED = "name a checkpoint that was saved quantized"
#: Arguments that are refused, and what to do.
_INSTEAD = {
    "mixed_precision_dtype": "set dtype, the number type of the weights",
    "max_memory_per_gpu": "give device_map, which says what goes where",
    "max_cpu_memory": "give device_map, which says what goes where",
    "tp_plan": "give parallelize=True or a device_map",
    "delta": "add the delta to the weights, save them, and name that folder",
    **dict.fromkeys(("autogptq", "gptqmodel", "load_in_8bit", "load_in_4bit", "quantization_config"), _QUANTIZED),
}


def check_others(arguments: Mapping[str, Any], known: Iterable[str]) -> None:
    """Note the arguments that are not needed; raise for the others, with the nearest name."""
    for name, value in arguments.items():
        if name == "backend" and value in ("default", "causal", None):
            continue
        if name == "backend":
            raise UsageError(f"backend '{value}' is not supported", hint="use a decoder-only (causal) model")
        if name in _INSTEAD:
            if value:  # lm-eval's default is none or false
                raise UsageError(f"the model argument '{name}' is not supported", hint=_INSTEAD[name])
        elif name in _NOT_NEEDED:
            logger.info("the model argument '%s' changes nothing: %s", name, _NOT_NEEDED[name])
        else:
            hint = nearest(name, [*known, *_NOT_NEEDED, "backend"], listed="arguments")
            raise UsageError(f"unknown model argument '{name}'", hint=hint)
