"""Completions of prompts with images and audio, by the decoding loop of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from transformers import GenerationConfig, PreTrainedModel

from multiform.errors import UsageError
from multiform.media import MediaText
from multiform.models.multimodal.inputs import Inputs
from multiform.models.multimodal.scoring import check_length
from multiform.models.torch.batching import BatchLimits, run_batches
from multiform.models.torch.sequences import Generation, end_tokens
from multiform.models.torch.transformers_loop import SamplingProcessor, StoppingCriterion
from multiform.requests import Completion, GenerationRequest, Response


@dataclass(frozen=True, slots=True)
class MediaRequest:
    """A request, its position, and its prompt with the model's placeholders."""

    index: int
    request: GenerationRequest
    prompt: MediaText

    @property
    def length(self) -> int:
        """The approximate number of tokens in the prompt."""
        return len(self.prompt) // 4 + 256 * len(self.prompt.media)


def generate(
    model: PreTrainedModel,
    inputs: Inputs,
    requests: Sequence[MediaRequest],
    limits: BatchLimits,
    make_generation: Callable[[int, GenerationRequest, list[int]], Generation],
) -> Iterator[Response[Completion]]:
    """The completion of each request, batch by batch.

    The model's own `generate` runs the decoding loop, because it alone knows how an architecture counts
    the positions of images; sampling and stopping are the same as for text models.
    """

    def order(request: MediaRequest) -> tuple[str, int, str]:
        return str(inputs.key(request.prompt)), -request.length, request.prompt

    def run(batch: Sequence[MediaRequest]) -> list[Response[Completion]]:
        return _generate_batch(model, inputs, batch, make_generation)

    for _, group in groupby(sorted(requests, key=order), key=lambda request: inputs.key(request.prompt)):
        for responses in run_batches(list(group), lambda request: request.length, limits, run):
            yield from responses


@torch.inference_mode()
def _generate_batch(
    model: PreTrainedModel,
    inputs: Inputs,
    requests: Sequence[MediaRequest],
    make_generation: Callable[[int, GenerationRequest, list[int]], Generation],
) -> list[Response[Completion]]:
    tokenizer = inputs.encoder.tokenizer
    tensors = inputs.tensors([request.prompt for request in requests], model, padding_side="left")
    generations = []
    for request, ids, mask in zip(requests, tensors["input_ids"], tensors["attention_mask"], strict=True):
        prompt = ids[mask.bool()].tolist()
        generation = make_generation(request.index, request.request, prompt)
        check_length(len(prompt), len(generation.prompt), request.prompt)
        if generation.num_beams > 1:
            message = f"num_beams is {generation.num_beams}: there is no beam search for prompts with images or audio"
            raise UsageError(message, hint="set num_beams=1")
        generations.append(generation)
    model.generate(
        **tensors,
        generation_config=_greedy_config(max(each.limit for each in generations), tokenizer.pad_token_id),
        logits_processor=[SamplingProcessor(generations)],
        stopping_criteria=[StoppingCriterion(generations, tokenizer, end_tokens(model.generation_config, tokenizer))],
    )
    return [(generation.index, generation.completion(tokenizer)) for generation in generations]


def _greedy_config(limit: int, pad_token_id: int | None) -> GenerationConfig:
    """Greedy decoding; of the model's defaults those are left out that each sequence's own sampling already has."""
    return GenerationConfig(
        max_new_tokens=limit,
        do_sample=False,
        num_beams=1,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        repetition_penalty=1.0,
        pad_token_id=pad_token_id,
        use_cache=True,
    )
