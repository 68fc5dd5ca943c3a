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
}
#: Loaders of lm-eval for quantized checkpoints, which transformers loads as all others.
_LOADERS = ("autogptq", "gptqmodel")
#: Arguments that are refused, and what to do.
_INSTEAD = {
    "mixed_precision_dtype": "set dtype, the number type of the weights",
    "tp_plan": "give parallelize=True or a device_map",
    "delta": "add the delta to the weights, save them, and name that folder",
    "quantization_config": "give load_in_8bit or load_in_4bit, or name a checkpoint that was saved quantized",
    **dict.fromkeys(_LOADERS, "name a folder whose config.json says how its weights are quantized"),
}


def check_others(arguments: Mapping[str, Any], known: Iterable[str]) -> None:
    """Note the arguments that are not needed; raise for the others, with the nearest name."""
    for name, value in arguments.items():
        if name in _LOADERS and value is True:
            logger.info("the model argument '%s' changes nothing: the checkpoint says how it is quantized", name)
        elif name in _INSTEAD:
            if value:  # lm-eval's default is none or false
                raise UsageError(f"the model argument '{name}' is not supported", hint=_INSTEAD[name])
        elif name in _NOT_NEEDED:
            logger.info("the model argument '%s' changes nothing: %s", name, _NOT_NEEDED[name])
        else:
            hint = nearest(name, [*known, *_NOT_NEEDED], listed="arguments")
            raise UsageError(f"unknown model argument '{name}'", hint=hint)
