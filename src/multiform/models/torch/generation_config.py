"""The generation config of a model: what it asks for beyond a request, and how that is honoured.

It is what `generate` of transformers does with a model's `generation_config.json`, by the same logits processors.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

from multiform.errors import UsageError
from multiform.models.torch.device import device_of

#: Settings that logits processors carry out, with the values that change nothing.
PROCESSED: dict[str, tuple[Any, ...]] = {
    "sequence_bias": (),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "remove_invalid_values": (False,),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "watermarking_config": (),
}
#: Settings that the choice of tokens, the limit and the end of a sequence follow.
FOLLOWED: dict[str, tuple[Any, ...]] = {
    "eos_token_id": (),
    "max_new_tokens": (),
    "repetition_penalty": (1.0,),
    "num_beams": (1,),
}
#: Settings of beam search, without effect elsewhere.
BEAMS: dict[str, tuple[Any, ...]] = {"length_penalty": (1.0,), "early_stopping": (False,)}
#: Settings that completions with a temperature follow, with the defaults of transformers.
SAMPLED: dict[str, tuple[Any, ...]] = {"top_k": (50,), "top_p": (1.0,), "min_p": (0.0,)}
#: Settings of completions with a temperature that are not supported.
UNSUPPORTED_SAMPLING: dict[str, tuple[Any, ...]] = {
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "top_h": (),
}
#: Other settings that are not supported. Those that are in no list change the speed, not the text.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "stop_strings": (),
    "max_time": (),
    "guidance_scale": (1,),
    "token_healing": (False,),
    "penalty_alpha": (0.0,),
    "dola_layers": (),
    "diversity_penalty": (0.0,),
    "num_beam_groups": (1,),
    "constraints": (),
    "force_words_ids": (),
}


def in_force(config: GenerationConfig | None) -> dict[str, Any]:
    """The settings of a generation config that change completions: those of greedy ones, and of sampled ones."""
    beams = BEAMS if num_beams(config) > 1 else {}
    settings = _active(config, {**FOLLOWED, **PROCESSED, **beams, **SAMPLED})
    if "watermarking_config" in settings:
        settings["watermarking_config"] = settings["watermarking_config"].to_dict()
    return settings


def num_beams(config: GenerationConfig | None) -> int:
    """The number of beams that a generation config asks for; 1 is no beam search."""
    return int(getattr(config, "num_beams", None) or 1)


def check_config(config: GenerationConfig | None, *, is_sampled: bool, where: str) -> None:
    """Raise a UsageError for a setting that is not supported and would change the completion."""
    names = {**UNSUPPORTED, **(UNSUPPORTED_SAMPLING if is_sampled else {})}
    for name, value in _active(config, names).items():
        raise UsageError(
            f"the model's generation config sets {name}={value!r}, which is not supported",
            where=where,
            hint="remove it from generation_config.json",
        )


def has_processors(config: GenerationConfig | None) -> bool:
    """Whether logits have to be processed before a token is chosen."""
    return bool(_active(config, PROCESSED))


def logits_processors(model: PreTrainedModel, prompt: Sequence[int], limit: int) -> LogitsProcessorList:
    """The processors of a decoder-only model for one sequence, in the order in which `generate` applies them.

    A repetition penalty is not among them: requests may have one of their own.
    """
    device = device_of(model)
    config = copy.deepcopy(model.generation_config)
    config.update(do_sample=False, num_beams=1, repetition_penalty=1.0, max_length=len(prompt) + limit)
    if config.min_new_tokens is not None:
        config.min_length = config.min_new_tokens + len(prompt)
    model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device=device)
    return model._get_logits_processor(
        config, input_ids_seq_length=len(prompt), encoder_input_ids=torch.tensor([prompt], device=device), device=device
    )


def _active(config: GenerationConfig | None, names: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    values = {name: getattr(config, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None and value not in names[name]}
