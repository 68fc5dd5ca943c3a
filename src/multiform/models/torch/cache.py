"""What is cached of past tokens: keys and values, those that several sequences share, and states as a whole."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, DynamicCache

from multiform.models.torch.device import to_device
from multiform.models.torch.plan import Span

#: Positions are allocated in steps of this many, so that few tokens need more memory.
ALLOCATION = 64
#: The names under which models return their state, and take it again.
STATE_NAMES = ("past_key_values", "cache_params", "state")


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
            self.layers[layer] = self._enlarge(layer, key, stop, 0), self._enlarge(layer, value, stop, 1)
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

    def _enlarge(self, layer: int, like: Tensor, size: int, which: int) -> Tensor:
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


@dataclass(frozen=True, slots=True)
class ModelState:
    """What a model returned beside its output, under the name by which it takes it again."""

    name: str
    value: Any

    @classmethod
    def of(cls, output: Any) -> ModelState:
        """The state in a model's output; a ValueError where it has none, or none that can be copied."""
        for name in STATE_NAMES:
            value = getattr(output, name, None)
            if value is not None:
                if not isinstance(value, Cache | Tensor | list | tuple):
                    raise ValueError(f"a state of the type {type(value).__name__}")
                return cls(name, value)
        raise ValueError("no state")

    @property
    def inputs(self) -> dict[str, Any]:
        """The state as an input of the model, which may change it."""
        return {self.name: self.value}

    def rows(self, numbers: list[int]) -> ModelState:
        """A copy of some rows, in that order; one may be there several times."""
        if isinstance(self.value, Cache):
            cache = copy.deepcopy(self.value)
            cache.reorder_cache(torch.tensor(numbers))
            return ModelState(self.name, cache)
        return ModelState(self.name, _select_rows(self.value, torch.tensor(numbers)))

    @property
    def nbytes(self) -> int:
        """The memory of all rows."""
        return sum(tensor.nbytes for tensor in _tensors(self.value))


def _select_rows(value: Any, numbers: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, numbers.to(value.device))
    return type(value)(_select_rows(part, numbers) for part in value)


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a state, however they are nested."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)
    elif isinstance(value, Cache):
        for layer in value.layers:
            yield from _tensors(vars(layer))
