"""Log-likelihoods of continuations after prompts with images and audio."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from transformers import PreTrainedModel

from multiform.errors import ModelError, shorten
from multiform.media import MediaText
from multiform.models.multimodal.inputs import Inputs, extended
from multiform.models.tokenizer import move_whitespace, split
from multiform.models.torch.batching import BatchLimits, run_batches
from multiform.models.torch.plan import Tokens
from multiform.requests import LLOutput, Response


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt, the input tokens after it, and the continuations that are scored at its end.

    The prompt loses `cut` tokens at its end where a token spans the boundary. Each target is the
    position of its request and the last token of the continuation; the other tokens are in `added`.
    """

    prompt: MediaText
    cut: int
    added: Tokens
    targets: list[tuple[int, int]] = field(default_factory=list)


def score(
    model: PreTrainedModel, inputs: Inputs, pairs: Sequence[tuple[MediaText, str]], limits: BatchLimits, max_length: int
) -> Iterator[Response[LLOutput]]:
    """The log-likelihood of each continuation after its prompt.

    The labels of one question are one row, so that its images are computed once.
    """
    rows: dict[object, Row] = {}
    for index, (prompt, cut, tokens) in enumerate(_tokenized(inputs, pairs)):
        if not tokens:
            yield index, LLOutput(0.0, True, 0)
            continue
        key = (str(prompt), prompt.media, cut, tokens[:-1].tobytes())
        rows.setdefault(key, Row(prompt, cut, tokens[:-1])).targets.append((index, tokens[-1]))

    def order(row: Row) -> tuple[str, int, str]:
        return str(inputs.key(row.prompt)), -_length(row), row.prompt

    def run(batch: Sequence[Row]) -> list[Response[LLOutput]]:
        return _score_batch(model, inputs, batch, max_length)

    for _, group in groupby(sorted(rows.values(), key=order), key=lambda row: inputs.key(row.prompt)):
        for responses in run_batches(list(group), _length, limits, run):
            yield from responses


def _length(row: Row) -> int:
    """The approximate length of a row; the number of an image's tokens is known only when it has been processed."""
    return len(row.prompt) // 4 + len(row.added) + 256 * len(row.prompt.media)


def _tokenized(inputs: Inputs, pairs: Sequence[tuple[MediaText, str]]) -> Iterator[tuple[MediaText, int, Tokens]]:
    """For each pair the prompt without trailing white space, the tokens it loses, and the continuation's tokens."""
    encoder = inputs.encoder
    moved = [move_whitespace(prompt, continuation) for prompt, continuation in pairs]
    encoded = encoder.encode(text for context, moved_text in moved for text in (context, context + moved_text))
    for (prompt, _), (context, moved_text) in zip(pairs, moved, strict=True):
        pair = split(encoded[context], encoded[context + moved_text], encoder.prefix_token_id)
        cut = max(0, len(encoded[context]) - pair.start)
        yield MediaText(context, prompt.media), cut, pair.tokens[pair.start :]


@torch.inference_mode()
def _score_batch(
    model: PreTrainedModel, inputs: Inputs, rows: Sequence[Row], max_length: int
) -> list[Response[LLOutput]]:
    tensors = inputs.tensors([row.prompt for row in rows], model, padding_side="right")
    keep = [int(n) - row.cut for n, row in zip(tensors["attention_mask"].sum(-1), rows, strict=True)]
    ends = [number + len(row.added) for number, row in zip(keep, rows, strict=True)]
    check_length(max(ends), max_length, rows[ends.index(max(ends))].prompt)
    positions = sorted({position for row, end in zip(rows, ends, strict=True) for position in _scored(row, end)})
    logits = _logits(model, extended(tensors, keep, [row.added for row in rows]), positions)
    responses: list[Response[LLOutput]] = []
    for row, end, row_logits in zip(rows, ends, logits, strict=True):
        scored = row_logits[[positions.index(position) for position in _scored(row, end)]].float()
        normalisers = scored.logsumexp(-1)
        likeliest = scored.argmax(-1).tolist()
        for index, last in row.targets:
            tokens = [*row.added, last]
            token_logits = scored[range(len(tokens)), tokens]
            loglikelihood = float((token_logits - normalisers).double().sum())
            responses.append((index, LLOutput(loglikelihood, tokens == likeliest, len(tokens))))
    return responses


def check_length(length: int, max_length: int, prompt: MediaText) -> None:
    """Refuse a prompt that is too long: truncated at the left, it would lose the placeholders of its images."""
    if length > max_length:
        raise ModelError(
            f"a prompt has {length} tokens with its images and sounds, and the model reads {max_length}",
            where=shorten(str(prompt)),
            hint="make images smaller (image_max_side, max_pixels), allow fewer (max_images), or lower num_fewshot",
        )


def _scored(row: Row, end: int) -> range:
    """The positions of a row whose logits are needed."""
    return range(end - len(row.added) - 1, end)


def _logits(model: PreTrainedModel, tensors: dict[str, torch.Tensor], positions: Sequence[int]) -> torch.Tensor:
    """The logits at some positions of each row."""
    index = torch.tensor(positions, device=model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        logits: torch.Tensor = model(**tensors, use_cache=False, logits_to_keep=index).logits
        return logits
    all_logits: torch.Tensor = model(**tensors, use_cache=False).logits
    return all_logits[:, index]
