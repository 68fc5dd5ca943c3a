"""Runs the passes of a plan: tokens of many sequences at once, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiform.models.hf.attention import attention, unmasked
from multiform.models.hf.columns import ColumnCache, Columns
from multiform.models.hf.device import device_of
from multiform.models.hf.head import Head
from multiform.models.hf.last import read_at
from multiform.models.hf.packed import PackedAttention
from multiform.plan import Branch, Pass


@dataclass(frozen=True, slots=True)
class Passes:
    """Runs passes on a model, with attention of our own (`packed`) or the model's."""

    head: Head
    packed: bool

    def run(
        self,
        branches: Sequence[Branch],
        step: Pass,
        columns: Columns,
        places: NDArray[np.int64],
        base: int = 0,
    ) -> Iterator[tuple[int, Tensor]]:
        """The logits at places of a pass, in pieces; the keys and values of its tokens are put into the columns.

        The plan begins after `base` tokens, which are in the columns for all its sequences.
        """
        model = self.head.model
        ids = np.concatenate(
            [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
        )
        positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces]) + base
        mask = attention_mask(step, model.dtype, base).to(device_of(model))
        inputs: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids).long()[None].to(device_of(model)),
            "position_ids": torch.from_numpy(positions)[None].to(device_of(model)),
        }
        at = torch.zeros(len(places), dtype=torch.long), torch.from_numpy(places)
        if not self.packed:
            cache = ColumnCache(columns)
            with read_at(model, at[1]):
                return self.head.logits(*at, attention_mask=mask, past_key_values=cache, use_cache=True, **inputs)
        packed = PackedAttention(step, mask[0, 0], base)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
            return packed(query, *columns.put(layer, key, value), scale)

        with attention(model, attend), read_at(model, at[1]):
            return self.head.logits(*at, attention_mask=unmasked(model), use_cache=False, **inputs)


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
