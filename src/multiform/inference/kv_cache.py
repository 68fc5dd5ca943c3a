"""Keys and values of tokens, layer by layer, in memory that every pass uses again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from multiform.inference.plan import Span


class Columns:
    """The columns that a pass sees: those that are kept, and after them those that it computes.

    New memory for the keys and values of every pass would cost a third of the pass on a CPU.
    """

    def __init__(self) -> None:
        self.length = 0
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of a pass after those that are kept; gives all of them."""
        stop = self.length + key.shape[2]
        if layer not in self.layers or self.layers[layer][0].shape[2] < stop:
            self.layers[layer] = self._larger(layer, key, stop, 0), self._larger(layer, value, stop, 1)
        keys, values = self.layers[layer]
        keys[:, :, self.length : stop] = key
        values[:, :, self.length : stop] = value
        return keys[:, :, :stop], values[:, :, :stop]

    def keep(self, spans: Sequence[Span]) -> None:
        """Keep these columns, which become the first ones."""
        for keys_and_values in self.layers.values():
            for tensor in keys_and_values:
                _move(tensor, spans)
        self.length = sum(span.stop - span.start for span in spans)

    def take(self, spans: Sequence[Span]) -> list[tuple[Tensor, Tensor]]:
        """Copies of columns of every layer (head, token, dimension)."""
        return [
            (
                torch.cat([keys[0, :, span.start : span.stop] for span in spans], 1),
                torch.cat([values[0, :, span.start : span.stop] for span in spans], 1),
            )
            for _, (keys, values) in sorted(self.layers.items())
        ]

    def copy(self) -> Columns:
        """The kept columns, to go on with in another way."""
        other = Columns()
        other.length = self.length
        other.layers = {
            layer: (keys[:, :, : self.length].clone(), values[:, :, : self.length].clone())
            for layer, (keys, values) in self.layers.items()
        }
        return other

    def _larger(self, layer: int, like: Tensor, size: int, which: int) -> Tensor:
        rows, heads, _, dimensions = like.shape
        tensor = like.new_empty(rows, heads, size, dimensions)
        if layer in self.layers:
            tensor[:, :, : self.length] = self.layers[layer][which][:, :, : self.length]
        return tensor


class ColumnCache(DynamicCache):  # type: ignore[misc]
    """Columns in the shape in which a model's own attention takes them."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self.columns.put(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.columns.length


def _move(tensor: Tensor, spans: Sequence[Span]) -> None:
    """Put spans of columns, which come in order, one after the other at the beginning."""
    end = 0
    for span in spans:
        length = span.stop - span.start
        if span.start != end:
            # The places may overlap.
            tensor[:, :, end : end + length] = tensor[:, :, span.start : span.stop].clone()
        end += length
