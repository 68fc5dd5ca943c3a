"""Completions by the decoding loop of transformers, one sequence at a time: by `generate`, or by beam search.

`generate` alone knows what a recurrent, hybrid or chunked model caches. Sampling and stopping are the same as in
batches: they are done by a logits processor and a stopping criterion.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from multiform.models.model import Counters
from multiform.models.torch.cache import ModelState
from multiform.models.torch.device import device_of, run_batches
from multiform.models.torch.forward import reset_positions
from multiform.models.torch.plan import BatchLimits
from multiform.models.torch.sampling import Generation, end_tokens, next_token
from multiform.models.torch.structure import accepted_options, parameters
from multiform.requests import Completion, Response


def greedy_config(model: PreTrainedModel, limit: int, pad_token_id: int | None) -> GenerationConfig:
    """The model's own config (tokens that it forces or forbids), without the settings that each sequence has."""
    return _config(
        model,
        limit,
        pad_token_id,
        do_sample=False,
        num_beams=1,
        early_stopping=False,
        length_penalty=1.0,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        min_p=None,
        repetition_penalty=1.0,
    )


def _config(model: PreTrainedModel, limit: int, pad_token_id: int | None, **settings: Any) -> GenerationConfig:
    """The model's own config with some settings, for one completion of at most `limit` tokens."""
    config = copy.deepcopy(model.generation_config)
    config.update(
        max_length=None,
        max_new_tokens=limit,
        num_return_sequences=1,
        return_dict_in_generate=False,
        pad_token_id=pad_token_id,
        use_cache=True,
        **settings,
    )
    return config


def generate_alone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence by the model's own `generate`, which knows how custom code counts positions.

    Sequences with a `prefix` are in the order of their prompts, and begin with a copy of the state after it.
    """
    shared = PrefixState(model, counters)

    def run(batch: Sequence[Generation]) -> Response[Completion]:
        [generation] = batch
        reset_positions(model)
        state = shared.inputs(generation.prompt[: generation.prefix])
        ids = torch.tensor([generation.prompt], device=device_of(model))
        [response] = generate_batch(model, tokenizer, batch, {**prompt_inputs(model, ids), **state}, counters)
        counters.count_prefill(ids.numel() - generation.prefix)
        return response

    return run_batches(generations, lambda generation: generation.max_own_tokens, BatchLimits(1, 1), run)


@dataclass(slots=True)
class PrefixState:
    """The state after the prefix that was used last, for the sequences that begin with it."""

    model: PreTrainedModel
    counters: Counters
    tokens: Sequence[int] = ()
    state: ModelState | None = None

    @torch.inference_mode()
    def inputs(self, prefix: Sequence[int]) -> dict[str, Any]:
        """A copy of the state after a prefix, as `generate` takes it; empty where there is no prefix."""
        if not prefix:
            return {}
        if self.state is None or self.tokens != prefix:
            self.state = None  # before the next one is computed: memory is for one
            ids = torch.tensor([list(prefix)], device=device_of(self.model))
            options = accepted_options(self.model.forward, use_cache=True, logits_to_keep=1)
            self.state, self.tokens = ModelState.of(self.model(input_ids=ids, **options)), prefix
            self.counters.count_prefill(len(prefix))
        return self.state.rows([0]).inputs


def prompt_inputs(model: PreTrainedModel, ids: Tensor) -> dict[str, Tensor]:
    """The inputs of `generate` for prompts without padding; some recurrent models refuse a mask."""
    names = parameters(model.forward) | parameters(model.prepare_inputs_for_generation)
    mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in names else {}
    return {"input_ids": ids, **mask}


@torch.inference_mode()
def generate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    batch: Sequence[Generation],
    inputs: Mapping[str, Any],
    counters: Counters,
    *,
    use_cache: bool = True,
    with_prompts: bool = True,
) -> list[Response[Completion]]:
    """The completions of a batch by the model's own `generate`, whose inputs hold the prompts.

    The tokens that are decoded are counted, not those of the prompts: nearly all the time belongs to them. With an
    encoder (not `with_prompts`), the previous tokens are those of the decoder, which begin with its start token.
    """
    # A batch that runs out of memory is run again, with the same random numbers.
    generations = [replace(generation, tokens=[], rng=copy.copy(generation.rng)) for generation in batch]
    ends = end_tokens(model.generation_config, tokenizer)

    def choose(input_ids: Tensor, scores: Tensor) -> Tensor:
        """Leave only the token that each sequence's own sampling chooses."""
        for ids, logits, generation in zip(input_ids, scores, generations, strict=True):
            if not generation.finished:
                generation.check(float(logits.max()))
            if generation.finished or generation.failed or generation.sampling.is_argmax:
                continue
            previous = torch.tensor(generation.prompt + generation.tokens, device=ids.device) if with_prompts else ids
            token = next_token(logits.float(), previous, generation.sampling, generation.rng)
            logits.fill_(-torch.inf)
            logits[token] = 0
        return scores

    def stop(input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Append each sequence's newest token; which sequences are finished."""
        for generation, token in zip(generations, input_ids[:, -1].tolist(), strict=True):
            if not generation.finished:
                generation.append(token, tokenizer, ends)
        return torch.tensor([generation.finished for generation in generations], device=input_ids.device)

    config = greedy_config(model, max(generation.limit for generation in generations), tokenizer.pad_token_id)
    config.use_cache = use_cache
    model.generate(**inputs, generation_config=config, logits_processor=[choose], stopping_criteria=[stop])
    # The first token comes with the prompt, unless that is the encoder's.
    for _ in range(max(len(generation.tokens) for generation in generations) - with_prompts):
        counters.count_decode(len(generations))
    for generation in generations:
        counters.count_completion(len(generation.tokens))
    return [(generation.index, generation.completion(tokenizer)) for generation in generations]


def beam_search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generations: Sequence[Generation], counters: Counters
) -> Iterator[Response[Completion]]:
    """The completion of each sequence with several beams: the best, as lm-eval finds it in batches of one."""

    def run(batch: Sequence[Generation]) -> Response[Completion]:
        return batch[0].index, _search(model, tokenizer, batch[0], counters)

    with_beams = [generation for generation in generations if generation.num_beams > 1]
    return run_batches(with_beams, lambda generation: generation.max_own_tokens, BatchLimits(1, 1), run)


@torch.inference_mode()
def _search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generation: Generation, counters: Counters
) -> Completion:
    sampling = generation.sampling
    settings: dict[str, Any] = {"do_sample": sampling.temperature > 0}
    if settings["do_sample"]:
        settings |= {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    config = _config(
        model,
        generation.limit,
        tokenizer.pad_token_id,
        num_beams=generation.num_beams,
        repetition_penalty=sampling.repetition_penalty,
        **settings,
    )
    ids = torch.tensor([generation.prompt], device=device_of(model))
    start = 1 if model.config.is_encoder_decoder else len(generation.prompt)
    # How many of the last tokens can hold each stop string; it may have other tokens than the string alone has.
    windows = {stop: len(tokenizer.encode(stop, add_special_tokens=False)) + 2 for stop in generation.stops}
    stopped = False

    def check(input_ids: Tensor, scores: Tensor) -> Tensor:
        generation.check(float(scores.max()))
        return scores

    def stop_all(input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """All beams end when the best one has a stop string at its end."""
        nonlocal stopped
        best = input_ids[0, start:].tolist()
        stopped = stopped or any(stop in str(tokenizer.decode(best[-window:])) for stop, window in windows.items())
        return torch.full((len(input_ids),), stopped, device=input_ids.device)

    with torch.random.fork_rng(enabled=config.do_sample):
        if config.do_sample:
            torch.manual_seed(generation.rng.getrandbits(63))
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=config,
            logits_processor=[check],
            stopping_criteria=[stop_all],
        )
    for token in output[0, start:].tolist():  # before the prompt, as nearly all the time belongs to them
        counters.count_decode(generation.num_beams)
        if not generation.finished:
            generation.append(token, tokenizer, end_tokens(model.generation_config, tokenizer))
    counters.count_prefill(ids.numel())
    counters.count_completion(len(generation.tokens))
    return generation.completion(tokenizer)
