"""Runs the passes of a plan: tokens of many sequences at once, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiform.models.hf.attention import Attend, attention, unmasked
from multiform.models.hf.columns import ColumnCache, Columns
from multiform.models.hf.device import device_of
from multiform.models.hf.head import Head
from multiform.models.hf.last import read_at
from multiform.models.hf.layers import lean_layers
from multiform.models.hf.packed import PackedAttention
from multiform.plan import Branch, Pass


class Way(Enum):
    """How a model runs a pass, from what computes least to what all models can."""

    #: Layers and attention of our own.
    LEAN = auto()
    #: The model's layers, with attention of our own.
    PACKED = auto()
    #: The model alone, which is given a mask.
    MASKED = auto()


@dataclass(frozen=True, slots=True)
class Passes:
    """Runs passes on a model, in one way."""

    head: Head
    way: Way

    def run(
        self,
        branches: Sequence[Branch],
        step: Pass,
        columns: Columns,
        places: NDArray[np.int64],
        base: int = 0,
    ) -> Tensor:
        """What the logits at places of a pass are made of; the keys and values of its tokens are put into the columns.

        The plan begins after `base` tokens, which are in the columns for all its sequences.
        """
        model, device = self.head.model, device_of(self.head.model)
        ids = np.concatenate(
            [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
        )
        positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces]) + base
        mask = attention_mask(step, model.dtype, base).to(device)
        inputs: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids).long()[None].to(device),
            "position_ids": torch.from_numpy(positions)[None].to(device),
        }
        at = torch.zeros(len(places), dtype=torch.long), torch.from_numpy(places)
        if self.way is Way.MASKED:
            cache = ColumnCache(columns)
            with read_at(model, at[1]):
                return self.head.states(*at, attention_mask=mask, past_key_values=cache, use_cache=True, **inputs)
        packed = PackedAttention(step, mask[0, 0], base)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
            return packed(query, *columns.put(layer, key, value), scale)

        with self.attending(attend, at[1]):
            return self.head.states(*at, attention_mask=unmasked(model), use_cache=False, **inputs)

    @contextmanager
    def attending(self, attend: Attend, places: Tensor | None = None) -> Iterator[None]:
        """Within this context, the model's layers call `attend`; the last one is computed at places of the only row."""
        model = self.head.model
        with ExitStack() as layers:
            layers.enter_context(attention(model, attend))
            if self.way is Way.LEAN:
                layers.enter_context(lean_layers(model, attend, places))
            elif places is not None:
                layers.enter_context(read_at(model, places))
            yield


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
