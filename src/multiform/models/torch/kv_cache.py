"""The KV cache: keys and values of past tokens, layer by layer, in memory that every forward pass reuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from multiform.models.torch.plan import Span


class KVCache:
    """Keys and values at the first `length` positions; a forward pass writes its own behind them.

    Allocating keys and values again in every pass would cost a third of the pass on a CPU.
    """

    def __init__(self) -> None:
        self.length = 0
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a pass's keys and values behind the cached ones, and return both together."""
        stop = self.length + key.shape[2]
        if layer not in self.layers or self.layers[layer][0].shape[2] < stop:
            self.layers[layer] = self._enlarged(layer, key, stop, 0), self._enlarged(layer, value, stop, 1)
        keys, values = self.layers[layer]
        keys[:, :, self.length : stop] = key
        values[:, :, self.length : stop] = value
        return keys[:, :, :stop], values[:, :, :stop]

    def keep(self, spans: Sequence[Span]) -> None:
        """Drop all positions but these, which become the first ones."""
        for keys_and_values in self.layers.values():
            for tensor in keys_and_values:
                _compact(tensor, spans)
        self.length = sum(span.stop - span.start for span in spans)

    def extract(self, spans: Sequence[Span]) -> list[tuple[Tensor, Tensor]]:
        """Copies of the keys and values (head, token, dimension) at some positions, by layer."""
        return [
            (
                torch.cat([keys[0, :, span.start : span.stop] for span in spans], 1),
                torch.cat([values[0, :, span.start : span.stop] for span in spans], 1),
            )
            for _, (keys, values) in sorted(self.layers.items())
        ]

    def copy(self) -> KVCache:
        """A copy of the cached positions."""
        cache = KVCache()
        cache.length = self.length
        cache.layers = {
            layer: (keys[:, :, : self.length].clone(), values[:, :, : self.length].clone())
            for layer, (keys, values) in self.layers.items()
        }
        return cache

    def _enlarged(self, layer: int, like: Tensor, size: int, which: int) -> Tensor:
        rows, heads, _, dimensions = like.shape
        tensor = like.new_empty(rows, heads, size, dimensions)
        if layer in self.layers:
            tensor[:, :, : self.length] = self.layers[layer][which][:, :, : self.length]
        return tensor


class TransformersCache(DynamicCache):  # type: ignore[misc]
    """A KVCache as the cache object that the models of transformers take."""

    def __init__(self, cache: KVCache) -> None:
        super().__init__()
        self.cache = cache

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self.cache.update(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.cache.length


def _compact(tensor: Tensor, spans: Sequence[Span]) -> None:
    """Move spans of positions, which are in order, to the beginning, one after the other."""
    end = 0
    for span in spans:
        length = span.stop - span.start
        if span.start != end:
            # Source and target may overlap.
            tensor[:, :, end : end + length] = tensor[:, :, span.start : span.stop].clone()
        end += length
