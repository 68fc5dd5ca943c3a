"""Batches in which sequences being decoded share the KV cache of their common prefix."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multiform.models.torch.decode.prefix_group import PrefixGroup
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.forward import Forward
from multiform.models.torch.kv_cache import KVCache
from multiform.models.torch.plan import Chunk, Span, Tokens, plan
from multiform.models.usage import Counters


@dataclass(frozen=True, slots=True)
class NewSequence:
    """A sequence to be prefilled: its own tokens, after the prefix of its group."""

    id: int
    tokens: Tokens


class SharedPrefixBatch:
    """Sequences in groups, each with one prefix; a forward pass computes the next token of all of them."""

    def __init__(self, forward: Forward, counters: Counters, *, size: int) -> None:
        self.forward = forward
        self.counters = counters
        self.size = size
        self.groups: dict[tuple[int, ...], PrefixGroup] = {}
        #: The id of the sequence in each row.
        self.ids: list[int] = []
        self.next_id = 0

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        """Add prompts as new rows at the end, and return the logits after each of them."""
        by_prefix: dict[tuple[int, ...], list[NewSequence]] = {}
        for prompt, length in zip(prompts, prefixes, strict=True):
            sequence = NewSequence(self.next_id, array("i", prompt[length:]))
            by_prefix.setdefault(tuple(prompt[:length]), []).append(sequence)
            self.ids.append(self.next_id)
            self.next_id += 1
        logits: dict[int, Tensor] = {}
        for prefix, sequences in by_prefix.items():
            logits |= self._prefill_group(self._group(prefix), sequences)
        # The group that was used last may be needed again; others exist for their sequences only.
        last = next(reversed(by_prefix))
        self.groups = {key: group for key, group in self.groups.items() if group.ids or key == last}
        return torch.stack([logits[sequence] for sequence in self.ids[-len(prompts) :]])

    def decode(self, tokens: Sequence[int]) -> Tensor:
        """Append one token to every row, and return the logits after it."""
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

        device = device_of(self.forward.head.model)
        input_ids, position_ids = (
            to_device(torch.tensor(values), device)[:, None]
            for values in ([token_of[sequence] for sequence in ids], positions)
        )
        states = self.forward.run_with_attention(input_ids, position_ids, attend)
        self.counters.count_decode(len(ids))
        logits = torch.cat([chunk for _, chunk in self.forward.head.logits(states)])
        line_of = {sequence: line for line, sequence in enumerate(ids)}
        return logits[[line_of[sequence] for sequence in self.ids]]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows but these."""
        remaining = [self.ids[row] for row in rows]
        dropped = set(self.ids) - set(remaining)
        for group in self.groups.values():
            for sequence in dropped.intersection(group.ids):
                group.remove(sequence)
        self.ids = remaining

    def _group(self, prefix: tuple[int, ...]) -> PrefixGroup:
        """The group of a prefix; a new one is computed after the longest part of the prefix that another group has."""
        if prefix not in self.groups:
            known = max((key for key in self.groups if key == prefix[: len(key)]), key=len, default=())
            cache = self.groups[known].shared.copy() if known else KVCache()
            if prefix:
                self._compute([array("i", prefix[len(known) :])], cache, len(known))
            cache.length = len(prefix)
            self.groups[prefix] = PrefixGroup(len(prefix), cache)
        return self.groups[prefix]

    def _prefill_group(self, group: PrefixGroup, sequences: Sequence[NewSequence]) -> dict[int, Tensor]:
        """Compute the own tokens of new sequences and add them to their group; returns the logits after each, by id."""
        ends = self._compute([sequence.tokens for sequence in sequences], group.shared, group.prefix)
        group.shared.length = group.prefix
        group.add([(sequence.id, kv) for sequence, (_, kv) in zip(sequences, ends, strict=True)])
        return {sequence.id: logits for sequence, (logits, _) in zip(sequences, ends, strict=True)}

    def _compute(
        self, sequences: Sequence[Tokens], cache: KVCache, base: int
    ) -> list[tuple[Tensor, list[tuple[Tensor, Tensor]]]]:
        """Compute sequences after the cache's tokens; for each its last logits, and its keys and values by layer."""
        planned = plan(sequences, [len(tokens) - 1 for tokens in sequences], size=self.size, budget=2**31)
        results: dict[int, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = {}
        for number, step in enumerate(planned.passes):
            ends: list[tuple[Chunk, int]] = []
            position = step.cached
            for chunk in step.chunks:
                position += chunk.stop - chunk.start
                if chunk.stop == len(planned.branches[chunk.branch].tokens):
                    ends.append((chunk, position))
            last_tokens = np.array([position - step.cached - 1 for _, position in ends], dtype=np.int64)
            states = self.forward.run(planned.branches, step, cache, last_tokens, base)
            self.counters.count_prefill(step.computed)
            lines = [line for _, logits in self.forward.head.logits(states) for line in logits]
            for (chunk, position), line in zip(ends, lines, strict=True):
                spans = [*chunk.prefix, Span(position - (chunk.stop - chunk.start), position)]
                extracted = cache.extract(_shifted(spans, base))
                for request in planned.branches[chunk.branch].requests:
                    results[request] = line, extracted
            if number < len(planned.passes) - 1:
                cache.keep([Span(0, base), *_shifted(step.keep, base)])
        return [results[index] for index in range(len(sequences))]


def _shifted(spans: Sequence[Span], base: int) -> list[Span]:
    return [Span(base + span.start, base + span.stop) for span in spans]
