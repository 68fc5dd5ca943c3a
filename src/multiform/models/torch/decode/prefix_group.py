"""The KV cache of sequences being decoded that share a prefix: one copy of the prefix for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from multiform.models.torch.device import to_device
from multiform.models.torch.kv_cache import KVCache

#: Positions are allocated in steps of this many, so that few tokens need more memory.
ALLOCATION = 64


@dataclass(slots=True)
class PrefixGroup:
    """Sequences with a common prefix of `prefix` tokens.

    `shared` holds the prefix's keys and values, and `suffixes` holds, for each layer, those of each sequence after it,
    for as many sequences and positions as were needed so far. `ids` tells which sequence is in which row
    and `lengths` how many tokens of its own it has.
    """

    prefix: int
    shared: KVCache
    suffixes: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    mask: Tensor = field(default_factory=lambda: torch.empty(0))
    positions: Tensor = field(default_factory=lambda: torch.empty(0))

    def add(self, sequences: Sequence[tuple[int, Sequence[tuple[Tensor, Tensor]]]]) -> None:
        """Add sequences by id, each with the keys and values (head, token, dimension) of its own tokens."""
        lengths = [suffix[0][0].shape[1] for _, suffix in sequences]
        self._allocate(len(self.ids) + len(sequences), max(lengths), sequences[0][1])
        for (sequence, suffix), length in zip(sequences, lengths, strict=True):
            for (keys, values), (new_keys, new_values) in zip(self.suffixes, suffix, strict=True):
                keys[len(self.ids), :, :length] = new_keys
                values[len(self.ids), :, :length] = new_values
            self.ids.append(sequence)
            self.lengths.append(length)

    def remove(self, sequence: int) -> None:
        """Drop a sequence; the last one takes its row."""
        row, last = self.ids.index(sequence), len(self.ids) - 1
        if row < last:
            for keys, values in self.suffixes:
                keys[row, :, : self.lengths[last]] = keys[last, :, : self.lengths[last]]
                values[row, :, : self.lengths[last]] = values[last, :, : self.lengths[last]]
            self.ids[row], self.lengths[row] = self.ids[last], self.lengths[last]
        self.ids.pop()
        self.lengths.pop()

    def grow(self) -> None:
        """Make room for one more token in every sequence, and mask the positions that a sequence does not have."""
        width = max(self.lengths) + 1
        self._allocate(len(self.ids), width, [(keys[0], values[0]) for keys, values in self.suffixes])
        keys = self.suffixes[0][0]
        self.positions = to_device(torch.tensor(self.lengths), keys.device)
        unseen = torch.arange(width, device=keys.device) > self.positions[:, None]
        self.mask = torch.zeros(unseen.shape, device=keys.device, dtype=keys.dtype).masked_fill_(unseen, float("-inf"))
        self.lengths = [length + 1 for length in self.lengths]

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None = None
    ) -> Tensor:
        """The attention of one new token in each sequence, whose key and value are added to the cache.

        With a window, a token sees the last `window` tokens of its sequence only.
        """
        rows, heads, _, size = query.shape
        keys, values = self.suffixes[layer]
        # The layers of a model on several GPUs are on different devices.
        positions, mask = self.positions.to(query.device), self.mask.to(query.device)
        row_numbers = torch.arange(rows, device=query.device)
        keys[row_numbers, :, positions] = key[:, :, 0]
        values[row_numbers, :, positions] = value[:, :, 0]
        # Queries that share a head of keys are rows of one matrix.
        kv_heads = key.shape[1]
        scaled = query.reshape(rows, kv_heads, heads // kv_heads, size) * scale
        width = mask.shape[1]
        scores = torch.matmul(scaled, keys[:rows, :, :width].transpose(-1, -2)) + mask[:, None, None]
        if window is not None:
            scores = scores.masked_fill(_is_before(window, positions, 0, width)[:, None, None], float("-inf"))
        if not self.prefix:
            return torch.matmul(scores.softmax(-1), values[:rows, :, :width]).reshape(rows, heads, 1, size)
        shared_keys, shared_values = (part[0, :, : self.prefix] for part in self.shared.layers[layer])
        together = scaled.transpose(0, 1).reshape(kv_heads, -1, size)
        prefix_scores = torch.matmul(together, shared_keys.transpose(-1, -2)).view(
            kv_heads, rows, heads // kv_heads, -1
        )
        prefix_scores = prefix_scores.transpose(0, 1)
        if window is not None:
            hidden = _is_before(window, positions, -self.prefix, 0)[:, None, None]
            prefix_scores = prefix_scores.masked_fill(hidden, float("-inf"))
        weights = torch.cat([prefix_scores, scores], -1).softmax(-1)
        prefix_weights, own_weights = weights[..., : self.prefix], weights[..., self.prefix :]
        output = torch.matmul(own_weights, values[:rows, :, :width])
        output += (
            torch.matmul(prefix_weights.transpose(0, 1).reshape(kv_heads, -1, self.prefix), shared_values)
            .view(kv_heads, rows, heads // kv_heads, size)
            .transpose(0, 1)
        )
        return output.reshape(rows, heads, 1, size)

    def _allocate(self, rows: int, positions: int, like: Sequence[tuple[Tensor, Tensor]]) -> None:
        if not self.suffixes:
            self.suffixes = [(keys[None, :, :0][:0], values[None, :, :0][:0]) for keys, values in like]
        old_rows, _, old_positions, _ = self.suffixes[0][0].shape
        if rows > old_rows or positions > old_positions:
            more_rows = max(0, rows - old_rows)
            # Rounded up: the next tokens fit as well.
            more_positions = max(0, -(-positions // ALLOCATION) * ALLOCATION - old_positions)
            for layer, (keys, values) in enumerate(self.suffixes):  # layer by layer: only one is in memory twice
                padding = (0, 0, 0, more_positions, 0, 0, 0, more_rows)
                self.suffixes[layer] = pad(keys, padding), pad(values, padding)


def _is_before(window: int, new: Tensor, start: int, stop: int) -> Tensor:
    """Whether positions (sequence, position) are before the window of each sequence's new token, which is at `new`.

    Positions count from the end of the prefix; its own are negative.
    """
    return torch.arange(start, stop, device=new.device) <= new[:, None] - window
