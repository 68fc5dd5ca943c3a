"""Arguments of an `hf` model: wrong values, and lm-eval's arguments that have no effect or are refused."""

from __future__ import annotations

from multiform.errors import UsageError, nearest
from multiform.models.arguments import ArgumentRules, Refusal
from multiform.models.torch.batching import fixed_rows, parse_budget

#: Kinds of models, with lm-eval's names; by default a model's configuration tells.
BACKENDS = ("default", "causal", "seq2seq")
#: Arguments of lm-eval's `hf` model for loaders of quantized checkpoints, which transformers loads as all others.
_LOADERS = ("autogptq", "gptqmodel")
_LOADER_HINT = "name a folder whose config.json says how its weights are quantized"


def _is_several(value: object) -> bool:
    """Whether a number of GPUs or copies asks for more than one."""
    return value not in (None, 1, "1")


#: Other arguments of lm-eval's `hf` model.
RULES = ArgumentRules(
    without_effect={
        "logits_cache": "prompts that begin alike are always computed once",
        "softmax_dtype": "probabilities are always taken in float32, also of models in half precision",
        "low_cpu_mem_usage": "weights are always loaded that way",
        "use_fast_tokenizer": "the tokenizer is the one that transformers gives",
        **dict.fromkeys(_LOADERS, "the checkpoint says how it is quantized"),
    },
    refused={
        "mixed_precision_dtype": Refusal(hint="set dtype, the number type of the weights"),
        "tp_plan": Refusal(hint="give parallelize=True or a device_map"),
        "tensor_parallel_size": Refusal(
            hint="give parallelize=True, which places the layers on all GPUs, or take --model vllm",
            when=_is_several,
        ),
        "pipeline_parallel_size": Refusal(
            hint="give parallelize=True, which places the layers on all GPUs", when=_is_several
        ),
        "data_parallel_size": Refusal(
            hint="add --executor ray --workers N --resources gpu=1 for a copy of the model on each of N GPUs",
            when=_is_several,
        ),
        "delta": Refusal(hint="add the delta to the weights, save them, and name that folder"),
        "quantization_config": Refusal(
            hint="give load_in_8bit or load_in_4bit, or name a checkpoint that was saved quantized"
        ),
        **dict.fromkeys(_LOADERS, Refusal(hint=_LOADER_HINT, when=lambda value: bool(value) and value is not True)),
    },
)


def check_values(pretrained: str, backend: str | None, batch_size: int | str, prefix_budget: int | str | None) -> None:
    """Refuse wrong values before anything is loaded."""
    if backend not in (None, *BACKENDS):
        raise UsageError(f"unknown backend '{backend}'", hint=nearest(str(backend), BACKENDS, listed="backends"))
    if not pretrained:
        hint = "give a folder or a hub name: --model_args pretrained=DIR"
        raise UsageError("the model 'hf' needs the argument 'pretrained'", hint=hint)
    fixed_rows(batch_size)
    if prefix_budget is not None:
        parse_budget(prefix_budget)
