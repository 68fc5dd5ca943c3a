"""Log-likelihoods of an encoder-decoder model, in batches; a context is read once in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.inference.counters import Counters
from multiform.inference.device import device_of
from multiform.inference.limits import Limits, run_batches
from multiform.inference.scoring.loglikelihood import Totals, token_scores
from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response

#: Logits that are held at a time: 1 GiB in float32.
ELEMENTS = 2**28


@dataclass(frozen=True, slots=True)
class Row:
    """A context, what the decoder reads, and the continuations that are scored there.

    Each target is the position of its pair and the continuation's tokens. `room` is how many tokens this row,
    or any after it, has at most.
    """

    context: tuple[int, ...]
    read: tuple[int, ...]
    targets: list[tuple[int, list[int]]] = field(default_factory=list)
    room: int = 0


def score(
    model: PreTrainedModel, pairs: Sequence[Pair], limits: Limits, counters: Counters
) -> Iterator[Response[LLOutput]]:
    """The answer of each pair, batch by batch."""
    totals = Totals(pairs)
    yield from totals.empty()
    vocabulary = int(model.config.get_text_config(decoder=True).vocab_size)
    limits = replace(limits, tokens=min(limits.tokens, max(1, ELEMENTS // vocabulary)))

    def run(batch: Sequence[Row]) -> list[Response[LLOutput]]:
        return _score(model, batch, totals, counters)

    for answers in run_batches(_rows(model, pairs), lambda row: row.room, limits, run):
        yield from answers


def _rows(model: PreTrainedModel, pairs: Sequence[Pair]) -> list[Row]:
    """What is to be read, the longest contexts first and equal ones together.

    The decoder reads all tokens of a continuation but the last, so the one-token labels of one question are a single
    row.
    """
    rows: dict[object, Row] = {}
    for index, pair in enumerate(pairs):
        continuation = pair.continuation
        if continuation:
            row = Row(tuple(pair.context), tuple(decoder_tokens(model, continuation)))
            rows.setdefault((row.context, row.read), row).targets.append((index, continuation))
    ordered = sorted(rows.values(), key=lambda row: (-len(row.context), row.context, row.read))
    longest = [*accumulate((len(row.read) for row in reversed(ordered)), max)][::-1]
    return [replace(row, room=len(row.context) + most) for row, most in zip(ordered, longest, strict=True)]


def decoder_tokens(model: PreTrainedModel, continuation: Sequence[int]) -> list[int]:
    """What the decoder reads to score a continuation: its first token, and the continuation without its last."""
    make = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if make is not None:  # some begin with another token than that of the configuration
        read: list[int] = make(labels=torch.tensor([continuation]))[0].tolist()
        return read
    config = model.config.get_text_config(decoder=True)
    begin = next(
        token
        for token in (model.config.decoder_start_token_id, config.bos_token_id, config.pad_token_id, 0)
        if token is not None
    )
    return [begin, *continuation[:-1]]


@torch.inference_mode()
def _score(model: PreTrainedModel, rows: Sequence[Row], totals: Totals, counters: Counters) -> list[Response[LLOutput]]:
    contexts = list(dict.fromkeys(row.context for row in rows))
    place = {context: index for index, context in enumerate(contexts)}
    ids, mask = (tensor.to(device_of(model)) for tensor in padded(contexts))
    read, _ = padded([row.read for row in rows])
    encoding = model.get_encoder()(input_ids=ids, attention_mask=mask)
    which = torch.tensor([place[row.context] for row in rows], device=device_of(model))
    # Padding stands to the right of every token that the decoder looks at, so it needs no mask.
    logits = model(
        encoder_outputs=type(encoding)(last_hidden_state=encoding.last_hidden_state[which]),
        attention_mask=mask[which],
        decoder_input_ids=read.to(device_of(model)),
        use_cache=False,
    ).logits
    counters.read(ids.numel() + read.numel())
    asked = [
        (line * read.shape[1] + column, owner, token)
        for line, row in enumerate(rows)
        for owner, continuation in row.targets
        for column, token in enumerate(continuation)
    ]
    places, owners, tokens = zip(*asked, strict=True)
    distinct, inverse = np.unique(np.array(places, dtype=np.int64), return_inverse=True)
    lines = logits.flatten(0, 1)[torch.from_numpy(distinct).to(logits.device)].float()
    scores = token_scores([(0, lines)], inverse, tokens)
    return list(totals.add(np.array(owners, dtype=np.int64), *scores))


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The rows as one rectangle, padded at the right, and the mask that is 1 where a row has a token."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask
