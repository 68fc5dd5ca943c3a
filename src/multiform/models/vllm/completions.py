"""Completions: generation options in vLLM's terms, and the text from the tokens that it generates."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import transformers
from transformers import GenerationConfig, PreTrainedTokenizerBase

from multiform.errors import UsageError
from multiform.models.torch.sampling import PROCESSED, check_config, in_force, num_beams
from multiform.models.torch.sequences import Generation
from multiform.models.vllm.queries import EngineOutput
from multiform.requests import Completion


def check_model_config(config: GenerationConfig, *, is_sampled: bool, where: str) -> None:
    """Raise a UsageError for a setting of the model's generation config that vLLM would not follow."""
    check_config(config, is_sampled=is_sampled, where=where)
    ignored = [name for name in in_force(config) if name in PROCESSED]
    if num_beams(config) > 1:
        ignored.append("num_beams")
    if ignored:
        raise UsageError(
            f"the model's generation config sets {ignored[0]}, which vLLM does not follow",
            where=where,
            hint="remove it from generation_config.json, or use --model hf",
        )


def load_generation_config(name: str, **options: Any) -> GenerationConfig:
    """The generation config of a model, by its file or by its configuration."""
    try:
        return GenerationConfig.from_pretrained(name, **options)
    except OSError:  # there is no such file
        return GenerationConfig.from_model_config(transformers.AutoConfig.from_pretrained(name, **options))


def sampling_options(generation: Generation, end_tokens: Collection[int]) -> dict[str, Any]:
    """The arguments of vLLM's `SamplingParams` for a sequence to decode."""
    sampling = generation.sampling
    options: dict[str, Any] = {
        "max_tokens": generation.limit,
        "temperature": sampling.temperature,
        "repetition_penalty": sampling.repetition_penalty,
        "stop": list(generation.stops),
        "stop_token_ids": sorted(end_tokens),
        # A stop string may be a special token, and the text is decoded from the tokens again.
        "skip_special_tokens": False,
    }
    if sampling.temperature:
        random = {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p}
        options |= {**random, "seed": generation.rng.getrandbits(31)}
    return options


def completion(generation: Generation, output: EngineOutput, tokenizer: PreTrainedTokenizerBase) -> Completion:
    """The text of the generated tokens, cut as `hf` cuts it."""
    generation.tokens = list(output.tokens)
    generation.at_limit = output.at_limit
    return generation.completion(tokenizer)
