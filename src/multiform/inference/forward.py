"""Runs the passes of a plan: tokens of many sequences at once, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiform.inference.attention import Attend, attention, unmasked
from multiform.inference.device import device_of
from multiform.inference.kv_cache import ColumnCache, Columns
from multiform.inference.last import read_at
from multiform.inference.layers import run_layers
from multiform.inference.lm_head import ALIKE, Head
from multiform.inference.packed import PackedAttention
from multiform.inference.plan import Branch, Pass


class Way(Enum):
    """How a model runs a pass, from what computes least to what all models can."""

    #: Layers and attention of our own, without the model's code.
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
        tokens = np.concatenate(
            [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
        )
        positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces]) + base
        ids, at = torch.from_numpy(tokens).long()[None].to(device), torch.from_numpy(positions)[None].to(device)
        mask, some = attention_mask(step, model.dtype, base).to(device), torch.from_numpy(_enough(places))
        if self.way is Way.MASKED:
            inputs = {"attention_mask": mask, "past_key_values": ColumnCache(columns), "use_cache": True}
            with read_at(model, some):
                lines = self.head.states(torch.zeros_like(some), some, input_ids=ids, position_ids=at, **inputs)
            return lines[: len(places)]
        lengths = [piece.stop - piece.start for piece in step.pieces]
        ended = [piece.stop == len(branches[piece.branch].tokens) for piece in step.pieces]
        packed = PackedAttention(mask[0, 0], lengths, ended)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
            return packed(query, *columns.put(layer, key, value), scale)

        return self.attended(ids, at, attend, some)[: len(places)]

    def attended(self, ids: Tensor, positions: Tensor, attend: Attend, places: Tensor | None = None) -> Tensor:
        """What logits are made of where layers call `attend`: at places of a row, or of rows of one token each."""
        model = self.head.model
        if self.way is Way.LEAN:
            return run_layers(model, ids, positions, attend, places).flatten(0, 1)
        inputs = {"attention_mask": unmasked(model), "use_cache": False}
        with attention(model, attend), read_at(model, places) if places is not None else nullcontext():
            columns = torch.zeros(len(ids), dtype=torch.long) if places is None else places
            rows = torch.arange(len(ids)) if places is None else torch.zeros_like(places)
            return self.head.states(rows, columns, input_ids=ids, position_ids=positions, **inputs)


def _enough(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places, and some of them again where they are few, so that products of their lines are as those of many."""
    return np.resize(places, max(len(places), ALIKE)) if len(places) else places


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
