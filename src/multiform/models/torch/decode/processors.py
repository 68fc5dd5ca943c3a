"""Sampling and stopping for sequences whose decoding loop is `generate` of transformers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from multiform.models.torch.sampling import next_token
from multiform.models.torch.sequences import Generation


def greedy_config(model: PreTrainedModel, limit: int, pad_token_id: int | None) -> GenerationConfig:
    """The model's own config (tokens that it forces or forbids), without the settings that each sequence has."""
    config = copy.deepcopy(model.generation_config)
    config.update(
        max_length=None,
        max_new_tokens=limit,
        do_sample=False,
        num_beams=1,
        early_stopping=False,
        length_penalty=1.0,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        min_p=None,
        repetition_penalty=1.0,
        num_return_sequences=1,
        return_dict_in_generate=False,
        pad_token_id=pad_token_id,
        use_cache=True,
    )
    return config


class SamplingProcessor:
    """A logits processor that leaves only the token that a sequence's own sampling chooses.

    The previous tokens are those of the completion, after those of its prompt where the model has both in
    one sequence. With an encoder, the prompt is not among them, but the decoder's first token is.
    """

    def __init__(self, generations: Sequence[Generation], *, with_prompts: bool = True) -> None:
        self.generations = generations
        self.with_prompts = with_prompts

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        for ids, logits, generation in zip(input_ids, scores, self.generations, strict=True):
            if not generation.finished:
                generation.check(float(logits.max()))
            if generation.finished or generation.failed or generation.sampling.is_argmax:
                continue
            previous = ids
            if self.with_prompts:
                previous = torch.tensor(generation.prompt + generation.tokens, device=logits.device)
            token = next_token(logits.float(), previous, generation.sampling, generation.rng)
            logits.fill_(-torch.inf)
            logits[token] = 0
        return scores


class StoppingCriterion:
    """A stopping criterion that appends each sequence's newest token, and returns which sequences are finished."""

    def __init__(self, generations: Sequence[Generation], tokenizer: Any, end_tokens: frozenset[int]) -> None:
        self.generations = generations
        self.tokenizer = tokenizer
        self.end_tokens = end_tokens

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        for generation, token in zip(self.generations, input_ids[:, -1].tolist(), strict=True):
            if not generation.finished:
                generation.append(token, self.tokenizer, self.end_tokens)
        return torch.tensor([generation.finished for generation in self.generations], device=input_ids.device)
