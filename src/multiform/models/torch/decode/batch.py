"""Batches of sequences being decoded, and their KV cache; here those that share no prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from multiform.models.torch.device import device_of
from multiform.models.torch.plain import accepted, plain_logits
from multiform.models.usage import Counters

#: Kinds of layers that cache keys and values in the order of the tokens.
ATTENTION = {"full_attention", "sliding_attention"}


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


def has_plain_cache(model: PreTrainedModel) -> bool:
    """Whether rows can be added to the model's cache and removed from it.

    That is so with attention. Recurrent layers have a state of another shape, and left padding would
    become part of it.
    """
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    return not model._is_stateful and ATTENTION.issuperset(kinds)


class PaddedBatch:
    """Rows in one KV cache, padded at the left to the longest.

    `mask` is 1 where a row has a token; its sum is the position of the row's next one.
    """

    def __init__(self, model: PreTrainedModel, counters: Counters) -> None:
        self.model = model
        self.counters = counters
        self.cache = DynamicCache()
        self.mask = torch.zeros(0, 0, dtype=torch.long, device=device_of(model))

    def prefill(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        mask = mask.to(device_of(self.model))
        cache = DynamicCache()
        logits = self._forward(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)
        self._append(cache, mask)
        self.counters.count_prefill(ids.numel())
        return logits

    def decode(self, tokens: Sequence[int]) -> Tensor:
        positions = self.mask.sum(-1, keepdim=True)
        self.mask = pad(self.mask, (0, 1), value=1)
        self.counters.count_decode(len(tokens))
        return self._forward(torch.tensor(tokens)[:, None], self.mask, positions, self.cache)

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
        options = accepted(self.model.forward, position_ids=positions, logits_to_keep=1)
        output = self.model(
            input_ids=ids.to(device_of(self.model)),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            **options,
        )
        logits: Tensor = output.logits[:, -1].float()
        return logits

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


class UncachedBatch:
    """Rows that are computed one by one, and in full for every token: slow, and right for every causal model."""

    def __init__(self, model: PreTrainedModel, counters: Counters) -> None:
        self.model = model
        self.counters = counters
        self.rows: list[list[int]] = []

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
        return plain_logits(self.model, row, last=1)


def _layers(cache: DynamicCache) -> list[DynamicLayer]:
    return [layer for layer in cache.layers if isinstance(layer, DynamicLayer) and layer.keys is not None]


def _stack(first: Tensor, first_padding: int, second: Tensor, second_padding: int) -> Tensor:
    return torch.cat([pad(first, (0, 0, first_padding, 0)), pad(second, (0, 0, second_padding, 0))])
