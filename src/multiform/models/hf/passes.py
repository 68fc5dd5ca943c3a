"""Runs the passes of a plan: tokens of many sequences at once, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from multiform.models.hf.head import Head
from multiform.plan import Branch, Pass, Span


def run_pass(
    head: Head, branches: Sequence[Branch], step: Pass, cache: DynamicCache, columns: NDArray[np.int64], base: int = 0
) -> Iterator[tuple[int, Tensor]]:
    """The logits at columns of a pass, in pieces; all its tokens are added to the cache.

    The plan begins after `base` tokens, which are in the cache for all its sequences.
    """
    device = head.model.device
    ids = np.concatenate(
        [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
    )
    positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces])
    yield from head.logits(
        torch.zeros(len(columns), dtype=torch.long),
        torch.from_numpy(columns),
        input_ids=torch.from_numpy(ids).long()[None].to(device),
        position_ids=torch.from_numpy(positions + base)[None].to(device),
        attention_mask=attention_mask(step, head.model.dtype, base).to(device),
        past_key_values=cache,
        use_cache=True,
    )


def attention_mask(step: Pass, dtype: torch.dtype, base: int = 0) -> Tensor:
    """0 where a token of the pass sees a column, and minus infinity elsewhere; in four dimensions."""
    size = step.computed
    mask = torch.full((size, base + step.kept + size), float("-inf"), dtype=dtype)
    mask[:, :base] = 0
    after = torch.full((size, size), float("-inf"), dtype=dtype).triu_(1)
    row = 0
    for piece in step.pieces:
        length = piece.stop - piece.start
        lines = mask[row : row + length, base:]
        for span in piece.behind:
            lines[:, span.start : span.stop] = 0
        lines[:, step.kept + row : step.kept + row + length] = after[:length, :length]
        row += length
    return mask[None, None]


def keep(cache: DynamicCache, spans: Sequence[Span]) -> None:
    """Drop all columns of a cache but these."""
    if not spans:
        cache.layers.clear()
        return
    for layer in cache.layers:
        # A copy, because a view would hold the memory of the columns that are dropped.
        layer.keys = torch.cat([layer.keys[..., span.start : span.stop, :] for span in spans], -2)
        layer.values = torch.cat([layer.values[..., span.start : span.stop, :] for span in spans], -2)
