"""Texts of an encoder-decoder model: transformers decodes, and rows end as everywhere else."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from multiform.inference.counters import Counters
from multiform.inference.decode.generate import Row, completion, end_tokens
from multiform.inference.decode.processors import Choosing, Stopping
from multiform.inference.device import device_of
from multiform.inference.limits import Limits, run_batches
from multiform.models.seq2seq.score import padded
from multiform.requests import Completion, Response

logger = logging.getLogger("multiform")


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    limits: Limits,
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each row, batch by batch.

    Rows of one batch have the same limit, because some models force their end token there.
    """
    beams = getattr(model.generation_config, "num_beams", None)
    if rows and beams not in (None, 1):
        logger.warning("the model's generation config asks for %d beams; texts are written without beam search", beams)

    def run(batch: Sequence[Row]) -> list[Response[Completion]]:
        return _written(model, tokenizer, batch, counters)

    ordered = sorted(rows, key=lambda row: (row.limit, -len(row.prompt), row.prompt))
    for _, group in groupby(ordered, key=lambda row: row.limit):
        for answers in run_batches(list(group), lambda row: row.room, limits, run):
            yield from answers


@torch.inference_mode()
def _written(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Sequence[Row], counters: Counters
) -> list[Response[Completion]]:
    # A batch that runs out of memory begins anew, with the same random numbers.
    rows = [replace(row, tokens=[], numbers=copy.copy(row.numbers)) for row in asked]
    ids, mask = (tensor.to(device_of(model)) for tensor in padded([row.prompt for row in rows]))
    written = model.generate(
        input_ids=ids,
        attention_mask=mask,
        generation_config=_settings(model, rows[0].limit, tokenizer.pad_token_id),
        logits_processor=[Choosing(rows, prompts=False)],
        stopping_criteria=[Stopping(rows, tokenizer, end_tokens(model, tokenizer))],
    )
    counters.read(ids.numel())
    for _ in range(written.shape[1] - 1):
        counters.wrote(len(rows))
    return [(row.index, completion(tokenizer, row)) for row in rows]


def _settings(model: PreTrainedModel, limit: int, pad_token_id: int | None) -> GenerationConfig:
    """The model's own settings (tokens that it forces or forbids), without those that rows have for themselves."""
    settings = copy.deepcopy(model.generation_config)
    settings.update(
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
        pad_token_id=pad_token_id,
        use_cache=True,
    )
    return settings
