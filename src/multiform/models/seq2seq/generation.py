"""Completions of an encoder-decoder model, by the decoding loop of transformers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.models.seq2seq.scoring import right_padded
from multiform.models.torch.batching import run_batches
from multiform.models.torch.decode.processors import SamplingProcessor, StoppingCriterion, greedy_config
from multiform.models.torch.device import device_of
from multiform.models.torch.limits import Limits
from multiform.models.torch.sequences import Generation, end_tokens
from multiform.models.usage import Counters
from multiform.requests import Completion, Response


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    limits: Limits,
    counters: Counters,
    *,
    use_cache: bool = True,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence, batch by batch.

    Sequences of one batch have the same limit, because some models force their end token there.
    """

    def run(batch: Sequence[Generation]) -> list[Response[Completion]]:
        return _generate_batch(model, tokenizer, batch, counters, use_cache)

    ordered = sorted(generations, key=lambda each: (each.limit, -len(each.prompt), each.prompt))
    for _, group in groupby(ordered, key=lambda each: each.limit):
        for responses in run_batches(list(group), lambda each: each.max_own_tokens, limits, run):
            yield from responses


@torch.inference_mode()
def _generate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    batch: Sequence[Generation],
    counters: Counters,
    use_cache: bool,
) -> list[Response[Completion]]:
    # A batch that runs out of memory is run again, with the same random numbers.
    generations = [replace(generation, tokens=[], rng=copy.copy(generation.rng)) for generation in batch]
    prompts = [generation.prompt for generation in generations]
    ids, mask = (tensor.to(device_of(model)) for tensor in right_padded(prompts))
    config = greedy_config(model, generations[0].limit, tokenizer.pad_token_id)
    config.use_cache = use_cache
    decoded = model.generate(
        input_ids=ids,
        attention_mask=mask,
        generation_config=config,
        logits_processor=[SamplingProcessor(generations, with_prompts=False)],
        stopping_criteria=[StoppingCriterion(generations, tokenizer, end_tokens(model.generation_config, tokenizer))],
    )
    for _ in range(decoded.shape[1] - 1):  # before the prompts, as nearly all the time belongs to them
        counters.count_decode(len(generations))
    counters.count_prefill(ids.numel())
    for generation in generations:
        counters.count_completion(len(generation.tokens))
    return [(generation.index, generation.completion(tokenizer)) for generation in generations]
