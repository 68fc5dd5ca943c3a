"""Log-likelihoods of continuations after prompts with images and sounds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from transformers import PreTrainedModel

from multiform.errors import ModelError, shorten
from multiform.inference.limits import Limits, run_batches
from multiform.inference.plan import Tokens
from multiform.media import MediaText
from multiform.models.multimodal.inputs import Inputs, extended
from multiform.models.tokenizer import move_whitespace, split
from multiform.requests import LLOutput, Response


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt, the tokens that are read after it, and the continuations that are scored at its end.

    The prompt loses `cut` tokens at its end where a token spans the join. Each target is the
    position of its request and the last token of the continuation; the others are in `read`.
    """

    prompt: MediaText
    cut: int
    read: Tokens
    targets: list[tuple[int, int]] = field(default_factory=list)


def score(
    model: PreTrainedModel, inputs: Inputs, asked: Sequence[tuple[MediaText, str]], limits: Limits, max_length: int
) -> Iterator[Response[LLOutput]]:
    """The log-likelihood of each continuation after its prompt.

    The labels of one question are one row, so that its images are read once.
    """
    rows: dict[object, Row] = {}
    for index, (prompt, cut, tokens) in enumerate(_tokenized(inputs, asked)):
        if not tokens:
            yield index, LLOutput(0.0, True, 0)
            continue
        key = (str(prompt), prompt.media, cut, tokens[:-1].tobytes())
        rows.setdefault(key, Row(prompt, cut, tokens[:-1])).targets.append((index, tokens[-1]))

    def order(row: Row) -> tuple[str, int, str]:
        return str(inputs.key(row.prompt)), -_length(row), row.prompt

    for _, group in groupby(sorted(rows.values(), key=order), key=lambda row: inputs.key(row.prompt)):
        alike = list(group)
        for answers in run_batches(alike, _length, limits, lambda some: _scored(model, inputs, some, max_length)):
            yield from answers


def _length(row: Row) -> int:
    """How long a row is, about: how many tokens an image is shows only when it has been processed."""
    return len(row.prompt) // 4 + len(row.read) + 256 * len(row.prompt.media)


def _tokenized(inputs: Inputs, asked: Sequence[tuple[MediaText, str]]) -> Iterator[tuple[MediaText, int, Tokens]]:
    """Of each request the prompt without white space at its end, what it loses, and the continuation's tokens."""
    encoder = inputs.encoder
    moved = [move_whitespace(prompt, continuation) for prompt, continuation in asked]
    encoded = encoder.encode(text for context, rest in moved for text in (context, context + rest))
    for (prompt, _), (context, rest) in zip(asked, moved, strict=True):
        pair = split(encoded[context], encoded[context + rest], encoder.prefix_token_id)
        cut = max(0, len(encoded[context]) - pair.start)
        yield MediaText(context, prompt.media), cut, pair.tokens[pair.start :]


@torch.inference_mode()
def _scored(model: PreTrainedModel, inputs: Inputs, rows: Sequence[Row], max_length: int) -> list[Response[LLOutput]]:
    tensors = inputs.tensors([row.prompt for row in rows], model, padding_side="right")
    keep = [int(n) - row.cut for n, row in zip(tensors["attention_mask"].sum(-1), rows, strict=True)]
    ends = [number + len(row.read) for number, row in zip(keep, rows, strict=True)]
    check_length(max(ends), max_length, rows[ends.index(max(ends))].prompt)
    columns = sorted({place for row, end in zip(rows, ends, strict=True) for place in _columns(row, end)})
    logits = _logits(model, extended(tensors, keep, [row.read for row in rows]), columns)
    answers: list[Response[LLOutput]] = []
    for row, end, line in zip(rows, ends, logits, strict=True):
        at = line[[columns.index(place) for place in _columns(row, end)]].float()
        sums = at.logsumexp(-1)
        best = at.argmax(-1).tolist()
        for index, last in row.targets:
            tokens = [*row.read, last]
            chosen = at[range(len(tokens)), tokens]
            total = float((chosen - sums).double().sum())
            answers.append((index, LLOutput(total, tokens == best, len(tokens))))
    return answers


def check_length(length: int, max_length: int, prompt: MediaText) -> None:
    """Refuse a prompt that is too long: without its beginning, its images would have no place."""
    if length > max_length:
        raise ModelError(
            f"a prompt has {length} tokens with its images and sounds, and the model reads {max_length}",
            where=shorten(str(prompt)),
            hint="make images smaller (image_max_side, max_pixels), allow fewer (max_images), or lower num_fewshot",
        )


def _columns(row: Row, end: int) -> range:
    return range(end - len(row.read) - 1, end)


def _logits(model: PreTrainedModel, tensors: dict[str, torch.Tensor], columns: Sequence[int]) -> torch.Tensor:
    """The logits at some columns."""
    places = torch.tensor(columns, device=model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        found: torch.Tensor = model(**tensors, use_cache=False, logits_to_keep=places).logits
        return found
    every: torch.Tensor = model(**tensors, use_cache=False).logits
    return every[:, places]
