"""Completions one sequence at a time, by the decoding loop and the cache of the model itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.models.torch.batching import run_batches
from multiform.models.torch.decode.processors import SamplingProcessor, StoppingCriterion, greedy_config
from multiform.models.torch.device import device_of
from multiform.models.torch.limits import Limits
from multiform.models.torch.plain import accepted, parameters, reset_positions
from multiform.models.torch.sequences import Generation, end_tokens
from multiform.models.torch.state import ModelState
from multiform.models.usage import Counters
from multiform.requests import Completion, Response


def generate_alone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence by the model's own `generate`.

    It alone knows what a recurrent, hybrid or chunked model caches, and how custom code counts positions. Sequences
    with a `prefix` are in the order of their prompts, and begin with a copy of the state after it.
    """
    shared = PrefixState(model, counters)

    def run(batch: Sequence[Generation]) -> Response[Completion]:
        return _generate(model, tokenizer, batch[0], counters, shared)

    ordered = list(generations)
    if not any(generation.prefix for generation in generations):
        # The longest first: if memory is short, that shows at once.
        ordered.sort(key=lambda generation: (-len(generation.prompt), generation.prompt))
    yield from run_batches(ordered, lambda generation: generation.max_own_tokens, Limits(1, 1), run)


class PrefixState:
    """The state after the prefix that was used last, for the sequences that begin with it."""

    def __init__(self, model: PreTrainedModel, counters: Counters) -> None:
        self.model = model
        self.counters = counters
        self.tokens: Sequence[int] = ()
        self.state: ModelState | None = None

    @torch.inference_mode()
    def inputs(self, prefix: Sequence[int]) -> dict[str, Any]:
        """A copy of the state after a prefix, as `generate` takes it; empty where there is no prefix."""
        if not prefix:
            return {}
        if self.state is None or self.tokens != prefix:
            self.state = None  # before the next one is computed: memory is for one
            ids = torch.tensor([list(prefix)], device=device_of(self.model))
            options = accepted(self.model.forward, use_cache=True, logits_to_keep=1)
            self.state, self.tokens = ModelState.of(self.model(input_ids=ids, **options)), prefix
            self.counters.count_prefill(len(prefix))
        return self.state.rows([0]).inputs


def prompt_inputs(model: PreTrainedModel, ids: Tensor) -> dict[str, Tensor]:
    """The inputs of `generate` for prompts without padding; some recurrent models refuse a mask."""
    names = parameters(model.forward) | parameters(model.prepare_inputs_for_generation)
    mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in names else {}
    return {"input_ids": ids, **mask}


@torch.inference_mode()
def _generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generation: Generation,
    counters: Counters,
    shared: PrefixState,
) -> Response[Completion]:
    generation = replace(generation, tokens=[], rng=copy.copy(generation.rng))
    reset_positions(model)
    state = shared.inputs(generation.prompt[: generation.prefix])
    ids = torch.tensor([generation.prompt], device=device_of(model))
    model.generate(
        **prompt_inputs(model, ids),
        **state,
        generation_config=greedy_config(model, generation.limit, tokenizer.pad_token_id),
        logits_processor=[SamplingProcessor([generation])],
        stopping_criteria=[StoppingCriterion([generation], tokenizer, end_tokens(model.generation_config, tokenizer))],
    )
    for _ in generation.tokens[1:]:  # before the prompt, as nearly all the time belongs to them
        counters.count_decode(1)
    counters.count_prefill(ids.numel() - generation.prefix)
    counters.count_completion(len(generation.tokens))
    return generation.index, generation.completion(tokenizer)
