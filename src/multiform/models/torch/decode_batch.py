"""Batches of sequences being decoded, and their KV cache: padded, recomputed, or with shared prefixes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from multiform.models.model import Counters
from multiform.models.torch.cache import NONE_KEPT, KeptPrefixes, KVCache
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.forward import CausalLM, Forward, pad_rows, plain_logits
from multiform.models.torch.plan import Chunk, Span, plan
from multiform.models.torch.tree import Tokens, common_prefix_length

#: Positions are allocated in steps of this many, so that few tokens need more memory.
ALLOCATION = 64


class DecodeBatch(Protocol):
    """A batch of sequences, one to a row; all methods refer to the rows in the same order."""

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        """Add prompts as new rows at the end, and return the logits after each of them.

        `prefixes` are the lengths of the prefixes that prompts have in common.
        """

    def decode(self, tokens: Sequence[int]) -> Tensor:
        """Append one token to every row, and return the logits after it."""

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows but these."""


class PaddedBatch:
    """Rows in one KV cache, padded at the left to the longest.

    `mask` is 1 where a row has a token; its sum is the position of the row's next one.
    """

    def __init__(self, lm: CausalLM, counters: Counters) -> None:
        self.lm = lm
        self.counters = counters
        self.cache = DynamicCache()
        self.mask = torch.zeros(0, 0, dtype=torch.long, device=device_of(lm.model))

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        ids, mask = pad_rows(prompts, self.mask.device, side="left")
        cache = DynamicCache()
        logits = self._forward(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)
        self._append(cache, mask)
        self.counters.count_prefill(ids.numel())
        return logits

    def decode(self, tokens: Sequence[int]) -> Tensor:
        positions = self.mask.sum(-1, keepdim=True)
        self.mask = pad(self.mask, (0, 1), value=1)
        self.counters.count_decode(len(tokens))
        return self._forward(torch.tensor(tokens, device=self.mask.device)[:, None], self.mask, positions, self.cache)

    def keep(self, rows: Sequence[int]) -> None:
        if not rows:
            self.cache, self.mask = DynamicCache(), self.mask[:0, :0]
            return
        index = torch.tensor(rows, device=self.mask.device)
        mask = self.mask[index]
        unused = int(mask.any(0).int().argmax())
        self.mask = mask[:, unused:]
        for layer in _layers(self.cache):
            layer.keys = layer.keys[index, ..., unused:, :]
            layer.values = layer.values[index, ..., unused:, :]

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        logits, _ = self.lm.run(torch.tensor([-1]), **inputs, past_key_values=cache, use_cache=True)
        return logits[:, 0].float()

    def _append(self, cache: DynamicCache, mask: Tensor) -> None:
        """Append the rows of another cache."""
        if not len(self.mask):
            self.cache, self.mask = cache, mask
            return
        width = max(self.mask.shape[1], mask.shape[1])
        padding, new_padding = width - self.mask.shape[1], width - mask.shape[1]
        self.mask = torch.cat([pad(self.mask, (padding, 0)), pad(mask, (new_padding, 0))])
        for layer, new in zip(_layers(self.cache), _layers(cache), strict=True):
            layer.keys = _stack(layer.keys, padding, new.keys, new_padding)
            layer.values = _stack(layer.values, padding, new.values, new_padding)


@dataclass(slots=True)
class UncachedBatch:
    """Rows that are computed one by one, and in full for every token: slow, and right for every causal model."""

    lm: CausalLM
    counters: Counters
    rows: list[list[int]] = field(default_factory=list)

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        self.rows.extend(list(prompt) for prompt in prompts)
        return torch.cat([self._last_logits(row) for row in self.rows[-len(prompts) :]])

    def decode(self, tokens: Sequence[int]) -> Tensor:
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        return torch.cat([self._last_logits(row) for row in self.rows])

    def keep(self, rows: Sequence[int]) -> None:
        self.rows = [self.rows[index] for index in rows]

    def _last_logits(self, row: list[int]) -> Tensor:
        self.counters.count_prefill(len(row))
        return plain_logits(self.lm.model, row, last=1)


def _layers(cache: DynamicCache) -> list[DynamicLayer]:
    return [layer for layer in cache.layers if isinstance(layer, DynamicLayer) and layer.keys is not None]


def _stack(first: Tensor, first_padding: int, second: Tensor, second_padding: int) -> Tensor:
    return torch.cat([pad(first, (0, 0, first_padding, 0)), pad(second, (0, 0, second_padding, 0))])


@dataclass(slots=True)
class SharedPrefixBatch:
    """Sequences in groups, each with one prefix; a forward pass computes the next token of all of them.

    `kept` are prefixes of earlier batches, and those in `recurring` are to be kept as well. `ids` has the id of the
    sequence in each row.
    """

    forward: Forward
    counters: Counters
    size: int
    kept: KeptPrefixes = NONE_KEPT
    recurring: Sequence[Tokens] = ()
    groups: dict[tuple[int, ...], PrefixGroup] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    next_id: int = 0

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        by_prefix: dict[tuple[int, ...], dict[int, Tokens]] = {}
        for prompt, length in zip(prompts, prefixes, strict=True):
            by_prefix.setdefault(tuple(prompt[:length]), {})[self.next_id] = array("i", prompt)
            self.ids.append(self.next_id)
            self.next_id += 1
        logits: dict[int, Tensor] = {}
        for prefix, sequences in by_prefix.items():
            group = self._group(prefix)
            ends = self._compute(list(sequences.values()), group.shared, group.prefix)
            group.shared.length = group.prefix
            group.add([(sequence, kv) for sequence, (_, kv) in zip(sequences, ends, strict=True)])
            logits |= {sequence: line for sequence, (line, _) in zip(sequences, ends, strict=True)}
        # The group that was used last may be needed again; others exist for their sequences only.
        last = next(reversed(by_prefix))
        self.groups = {key: group for key, group in self.groups.items() if group.ids or key == last}
        return torch.stack([logits[sequence] for sequence in self.ids[-len(prompts) :]])

    def decode(self, tokens: Sequence[int]) -> Tensor:
        groups = [group for group in self.groups.values() if group.ids]
        token_of = dict(zip(self.ids, tokens, strict=True))
        ids = [sequence for group in groups for sequence in group.ids]
        positions = [group.prefix + length for group in groups for length in group.lengths]
        sizes = [len(group.ids) for group in groups]
        for group in groups:
            group.grow()

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
            group_inputs = zip(groups, *(torch.split(part, sizes) for part in (query, key, value)), strict=True)
            return torch.cat([group.attend(layer, q, k, v, scale, window) for group, q, k, v in group_inputs])

        device = device_of(self.forward.lm.model)
        input_ids, position_ids = (
            to_device(torch.tensor(values), device)[:, None]
            for values in ([token_of[sequence] for sequence in ids], positions)
        )
        logits = self.forward.run_with_attention(input_ids, position_ids, attend, torch.tensor([0]))[:, 0].float()
        self.counters.count_decode(len(ids))
        line_of = {sequence: line for line, sequence in enumerate(ids)}
        return logits[[line_of[sequence] for sequence in self.ids]]

    def keep(self, rows: Sequence[int]) -> None:
        remaining = [self.ids[row] for row in rows]
        dropped = set(self.ids) - set(remaining)
        for group in self.groups.values():
            for sequence in dropped.intersection(group.ids):
                group.remove(sequence)
        self.ids = remaining

    def _group(self, prefix: tuple[int, ...]) -> PrefixGroup:
        """The group of a prefix; a new one is computed after the longest part of it that is in memory."""
        if prefix in self.groups:
            return self.groups[prefix]
        tokens = array("i", prefix)
        shared = [(common_prefix_length(array("i", key), tokens), group.shared) for key, group in self.groups.items()]
        known, source = max([*shared, self.kept.longest(tokens)], key=lambda part: part[0])
        cache = KVCache()
        if source is not None and known:
            cache.load(source, known)
        if known < len(prefix):
            self._compute([tokens], cache, known)
        cache.length = len(prefix)
        for part in self.recurring:
            if tokens[: len(part)] == part:
                self.kept.add(part, cache, [Span(0, len(part))])
        self.groups[prefix] = PrefixGroup(len(prefix), cache)
        return self.groups[prefix]

    def _compute(
        self, sequences: Sequence[Tokens], cache: KVCache, prefix: int
    ) -> list[tuple[Tensor, list[tuple[Tensor, Tensor]]]]:
        """Compute sequences after the cached prefix; for each its last logits, and its own keys and values by layer."""
        last = [len(tokens) - 1 for tokens in sequences]
        planned = plan(sequences, last, size=self.size, budget=2**31, cached=prefix)
        results: dict[int, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = {}
        for number, step in enumerate(planned.passes):
            ends: list[tuple[Chunk, int]] = []
            position = step.cached
            for chunk in step.chunks:
                position += chunk.stop - chunk.start
                if chunk.stop == len(planned.branches[chunk.branch].tokens):
                    ends.append((chunk, position))
            last_tokens = np.array([position - step.cached - 1 for _, position in ends], dtype=np.int64)
            logits = self.forward.run(planned.branches, step, cache, last_tokens).float()
            self.counters.count_prefill(step.computed_tokens)
            for (chunk, position), line in zip(ends, logits, strict=True):
                spans = [*chunk.prefix, Span(position - (chunk.stop - chunk.start), position)]
                layers = cache.copy([Span(max(start, prefix), stop) for start, stop in spans if stop > prefix]).layers
                extracted = [(keys[0], values[0]) for _, (keys, values) in sorted(layers.items())]
                for request in planned.branches[chunk.branch].requests:
                    results[request] = line, extracted
            if number < len(planned.passes) - 1:
                cache.keep(step.keep)
        return [results[index] for index in range(len(sequences))]


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
        if not self.suffixes:
            self.suffixes = [(keys[None, :, :0][:0], values[None, :, :0][:0]) for keys, values in sequences[0][1]]
        lengths = [suffix[0][0].shape[1] for _, suffix in sequences]
        self._allocate(len(self.ids) + len(sequences), max(lengths))
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
        self._allocate(len(self.ids), width)
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

    def _allocate(self, rows: int, positions: int) -> None:
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
