"""Runs the passes of a plan: tokens of many sequences at once, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from multiform.models.hf.attention import attention, unmasked
from multiform.models.hf.head import Head
from multiform.models.hf.packed import PackedAttention
from multiform.plan import Branch, Pass, Span


@dataclass(frozen=True, slots=True)
class Passes:
    """Runs passes on a model, with attention of our own (`packed`) or the model's."""

    head: Head
    packed: bool

    def run(
        self,
        branches: Sequence[Branch],
        step: Pass,
        cache: DynamicCache,
        columns: NDArray[np.int64],
        base: int = 0,
    ) -> Iterator[tuple[int, Tensor]]:
        """The logits at columns of a pass, in pieces; all its tokens are added to the cache.

        The plan begins after `base` tokens, which are in the cache for all its sequences.
        """
        model = self.head.model
        ids = np.concatenate(
            [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
        )
        positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces]) + base
        mask = attention_mask(step, model.dtype, base).to(model.device)
        inputs: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids).long()[None].to(model.device),
            "position_ids": torch.from_numpy(positions)[None].to(model.device),
            "past_key_values": cache,
            "use_cache": True,
        }
        rows, places = torch.zeros(len(columns), dtype=torch.long), torch.from_numpy(columns)
        if not self.packed:
            return self.head.logits(rows, places, attention_mask=mask, **inputs)
        with attention(model, PackedAttention(step, mask[0, 0], base)):
            return self.head.logits(rows, places, attention_mask=unmasked(model), **inputs)


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
