"""Completions by beam search, one sequence at a time, by the decoding loop of transformers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.models.torch.device import device_of
from multiform.models.torch.sequences import Generation, end_tokens
from multiform.models.usage import Counters
from multiform.requests import Completion, Response


def beam_search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generations: Sequence[Generation], counters: Counters
) -> Iterator[Response[Completion]]:
    """The completion of each sequence: the best of its beams, as lm-eval finds it in batches of one."""
    for generation in generations:
        yield generation.index, _search(model, tokenizer, generation, counters)


class BeamStop:
    """A stopping criterion: all beams end when the best one has a stop string at its end."""

    def __init__(self, generation: Generation, tokenizer: PreTrainedTokenizerBase, start: int) -> None:
        self.start = start
        self.tokenizer = tokenizer
        #: How many of the last tokens can hold each string; it may have other tokens than the string alone has.
        self.windows = {stop: len(tokenizer.encode(stop, add_special_tokens=False)) + 2 for stop in generation.stops}
        self.stopped = False

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        best = input_ids[0, self.start :].tolist()
        self.stopped = self.stopped or any(
            stop in str(self.tokenizer.decode(best[-window:])) for stop, window in self.windows.items()
        )
        return torch.full((len(input_ids),), self.stopped, device=input_ids.device)


class LogitCheck:
    """A logits processor that changes nothing, and tells a generation of logits from which no token can be chosen."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.generation.check(float(scores.max()))
        return scores


@torch.inference_mode()
def _search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generation: Generation, counters: Counters
) -> Completion:
    sampling = generation.sampling
    config = copy.deepcopy(model.generation_config)
    config.update(
        max_length=None,
        max_new_tokens=generation.limit,
        num_beams=generation.num_beams,
        num_return_sequences=1,
        return_dict_in_generate=False,
        do_sample=sampling.temperature > 0,
        repetition_penalty=sampling.repetition_penalty,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
    )
    if config.do_sample:
        config.update(
            temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p
        )
    ids = torch.tensor([generation.prompt], device=device_of(model))
    start = 1 if model.config.is_encoder_decoder else len(generation.prompt)
    with torch.random.fork_rng(enabled=config.do_sample):
        if config.do_sample:
            torch.manual_seed(generation.rng.getrandbits(63))
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=config,
            logits_processor=[LogitCheck(generation)],
            stopping_criteria=[BeamStop(generation, tokenizer, start)],
        )
    for token in output[0, start:].tolist():  # before the prompt, as nearly all the time belongs to them
        counters.count_decode(generation.num_beams)
        if not generation.finished:
            generation.append(token, tokenizer, end_tokens(model.generation_config, tokenizer))
    counters.count_prefill(ids.numel())
    counters.count_completion(len(generation.tokens))
    return generation.completion(tokenizer)
