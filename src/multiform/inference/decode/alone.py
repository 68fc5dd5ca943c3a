"""Completions one sequence at a time, by the decoding loop and the cache of the model itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.inference.batching import run_batches
from multiform.inference.counters import Counters
from multiform.inference.decode.processors import SamplingProcessor, StoppingCriterion, greedy_config
from multiform.inference.device import device_of
from multiform.inference.limits import Limits
from multiform.inference.plain import parameters, reset_positions
from multiform.inference.sequences import Generation, end_tokens
from multiform.requests import Completion, Response


def generate_alone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence by the model's own `generate`.

    It alone knows what a recurrent, hybrid or chunked model caches, and how custom code counts positions.
    """

    def run(batch: Sequence[Generation]) -> Response[Completion]:
        return _generate(model, tokenizer, batch[0], counters)

    # The longest first: if memory is short, that shows at once.
    ordered = sorted(generations, key=lambda generation: (-len(generation.prompt), generation.prompt))
    yield from run_batches(ordered, lambda generation: generation.max_own_tokens, Limits(1, 1), run)


def prompt_inputs(model: PreTrainedModel, ids: Tensor) -> dict[str, Tensor]:
    """The inputs of `generate` for prompts without padding; some recurrent models refuse a mask."""
    names = parameters(model.forward) | parameters(model.prepare_inputs_for_generation)
    mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in names else {}
    return {"input_ids": ids, **mask}


@torch.inference_mode()
def _generate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generation: Generation, counters: Counters
) -> Response[Completion]:
    generation = replace(generation, tokens=[], rng=copy.copy(generation.rng))
    reset_positions(model)
    ids = torch.tensor([generation.prompt], device=device_of(model))
    model.generate(
        **prompt_inputs(model, ids),
        generation_config=greedy_config(model, generation.limit, tokenizer.pad_token_id),
        logits_processor=[SamplingProcessor([generation])],
        stopping_criteria=[StoppingCriterion([generation], tokenizer, end_tokens(model.generation_config, tokenizer))],
    )
    for _ in generation.tokens[1:]:  # before the prompt, as nearly all the time belongs to them
        counters.count_decode(1)
    counters.count_prefill(ids.numel())
    counters.count_completion(len(generation.tokens))
    return generation.index, generation.completion(tokenizer)
