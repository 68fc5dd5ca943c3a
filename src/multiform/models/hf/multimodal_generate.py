"""Text after prompts with images and sounds: transformers decodes, and rows end as everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from multiform.media import MediaText
from multiform.models.base import Answer
from multiform.models.hf.generate import Row, completion, end_tokens
from multiform.models.hf.limits import Limits, run_batches
from multiform.models.hf.multimodal_inputs import Inputs
from multiform.models.hf.multimodal_score import check_length
from multiform.models.hf.sampling import choose
from multiform.requests import Completion, GenerationRequest


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
) -> Iterator[Answer[Completion]]:
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
) -> list[Answer[Completion]]:
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
        logits_processor=[_Choosing(rows)],
        stopping_criteria=[_Stopping(rows, tokenizer, end_tokens(model, tokenizer))],
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


class _Choosing:
    """Leaves of each row's scores the token that its request's sampling chooses."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        for line, row in zip(scores, self.rows, strict=True):
            if row.ended or (not row.sampling.temperature and row.sampling.repetition_penalty == 1.0):
                continue
            seen = torch.tensor(row.prompt + row.tokens, device=line.device)
            token = choose(line.float(), seen, row.sampling, row.numbers)
            line.fill_(-torch.inf)
            line[token] = 0
        return scores


class _Stopping:
    """Takes in each row's newest token, and says which rows have ended."""

    def __init__(self, rows: Sequence[Row], tokenizer: Any, ends: frozenset[int]) -> None:
        self.rows = rows
        self.tokenizer = tokenizer
        self.ends = ends

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        for row, token in zip(self.rows, input_ids[:, -1].tolist(), strict=True):
            if row.ended:
                continue
            if token in self.ends:
                row.ended = True
                continue
            row.tokens.append(token)
            row.ended = len(row.tokens) >= row.limit or self._has_stop(row)
        return torch.tensor([row.ended for row in self.rows], device=input_ids.device)

    def _has_stop(self, row: Row) -> bool:
        tail = str(self.tokenizer.decode(row.tokens[-row.stop_width :])) if row.stops else ""
        return any(stop in tail for stop in row.stops)
