"""Text after prompts with images and sounds: transformers decodes, and rows end as everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from transformers import GenerationConfig, PreTrainedModel

from multiform.inference.decode.generate import Row, completion, end_tokens
from multiform.inference.decode.processors import Choosing, Stopping
from multiform.inference.limits import Limits, run_batches
from multiform.media import MediaText
from multiform.models.multimodal.inputs import Inputs
from multiform.models.multimodal.score import check_length
from multiform.requests import Completion, GenerationRequest, Response


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, its position, and its prompt as the processor wants it."""

    index: int
    request: GenerationRequest
    prompt: MediaText

    @property
    def length(self) -> int:
        """How long the prompt is, about."""
        return len(self.prompt) // 4 + 256 * len(self.prompt.media)


def generate(
    model: PreTrainedModel,
    inputs: Inputs,
    asked: Sequence[Asked],
    limits: Limits,
    make_row: Callable[[int, GenerationRequest, list[int]], Row],
) -> Iterator[Response[Completion]]:
    """The completion of each request, batch by batch.

    The model's own `generate` runs the steps, because it alone knows how an architecture counts
    the positions of images; which token comes next, and where a text ends, is decided here.
    """

    def order(one: Asked) -> tuple[str, int, str]:
        return str(inputs.key(one.prompt)), -one.length, one.prompt

    for _, group in groupby(sorted(asked, key=order), key=lambda one: inputs.key(one.prompt)):
        alike = list(group)
        for answers in run_batches(
            alike, lambda one: one.length, limits, lambda some: _written(model, inputs, some, make_row)
        ):
            yield from answers


@torch.inference_mode()
def _written(
    model: PreTrainedModel,
    inputs: Inputs,
    asked: Sequence[Asked],
    make_row: Callable[[int, GenerationRequest, list[int]], Row],
) -> list[Response[Completion]]:
    tokenizer = inputs.encoder.tokenizer
    tensors = inputs.tensors([one.prompt for one in asked], model, padding_side="left")
    rows = []
    for one, ids, mask in zip(asked, tensors["input_ids"], tensors["attention_mask"], strict=True):
        prompt = ids[mask.bool()].tolist()
        row = make_row(one.index, one.request, prompt)
        check_length(len(prompt), len(row.prompt), one.prompt)
        rows.append(row)
    model.generate(
        **tensors,
        generation_config=_plain(max(row.limit for row in rows), tokenizer.pad_token_id),
        logits_processor=[Choosing(rows)],
        stopping_criteria=[Stopping(rows, tokenizer, end_tokens(model, tokenizer))],
    )
    return [(row.index, completion(tokenizer, row)) for row in rows]


def _plain(limit: int, pad_token_id: int | None) -> GenerationConfig:
    """Greedy decoding without the defaults that a model brings along; those are in the rows already."""
    return GenerationConfig(
        max_new_tokens=limit,
        do_sample=False,
        num_beams=1,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        pad_token_id=pad_token_id,
        use_cache=True,
    )
