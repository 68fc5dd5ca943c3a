"""What is cached of past tokens: keys and values, prefixes that stay in memory, and the states that models return."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from multiform.models.torch.plan import Span
from multiform.models.torch.tree import Tokens, common_prefix_length

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
        if layer not in self.layers:
            self.layers[layer] = key[:, :, :0], value[:, :, :0]
        if self.layers[layer][0].shape[2] < stop:
            room = (0, 0, 0, stop - self.length)
            keys, values = (pad(part[:, :, : self.length], room) for part in self.layers[layer])
            self.layers[layer] = keys, values
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

    def copy(self, spans: Sequence[Span]) -> KVCache:
        """A copy of some positions."""
        cache = KVCache()
        cache.length = sum(span.stop - span.start for span in spans)
        cache.layers = {
            layer: (_select(keys, spans), _select(values, spans)) for layer, (keys, values) in self.layers.items()
        }
        return cache

    def load(self, cache: KVCache, length: int) -> None:
        """Replace what is cached by the first positions of another cache."""
        self.length = 0
        for layer, (keys, values) in cache.layers.items():
            self.update(layer, keys[:, :, :length], values[:, :, :length])
        self.length = length


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


def _select(tensor: Tensor, spans: Sequence[Span]) -> Tensor:
    """A copy of the positions in some spans."""
    return torch.cat([tensor[:, :, span.start : span.stop] for span in spans], 2)


def _compact(tensor: Tensor, spans: Sequence[Span]) -> None:
    """Move spans of positions, which are in order, to the beginning, one after the other."""
    end = 0
    for span in spans:
        length = span.stop - span.start
        if span.start != end:
            # Source and target may overlap.
            tensor[:, :, end : end + length] = tensor[:, :, span.start : span.stop].clone()
        end += length


class KeptPrefix(NamedTuple):
    """The tokens of a prefix, and their keys and values."""

    tokens: Tokens
    cache: KVCache


class KeptPrefixes:
    """Prefixes that recur in the chunks of a run, such as few-shot examples: at most `most` tokens, those used last.

    Prefixes in use are not dropped for others.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: list[KeptPrefix] = []
        self._in_use: list[KeptPrefix] = []

    def entries(self) -> list[KeptPrefix]:
        return list(self._kept)

    def use(self, prefixes: Iterable[KeptPrefix]) -> None:
        """Hold these prefixes until the next call, and no others."""
        self._in_use = list(prefixes)
        self._kept.sort(key=self._is_in_use)

    def _is_in_use(self, prefix: KeptPrefix) -> bool:
        return any(prefix is each for each in self._in_use)

    def longest(self, tokens: Tokens) -> tuple[int, KVCache | None]:
        """The prefix that has most tokens in common with a sequence: how many, and its keys and values."""
        lengths = [common_prefix_length(prefix.tokens, tokens) for prefix in self._kept]
        best = max(range(len(lengths)), key=lengths.__getitem__, default=None)
        if best is None or not lengths[best]:
            return 0, None
        length = lengths[best]
        self._kept.append(prefix := self._kept.pop(best))
        return length, prefix.cache

    def add(self, tokens: Tokens, cache: KVCache, spans: Sequence[Span]) -> None:
        """Keep the positions of a cache that are in the spans: a prefix with these tokens.

        It takes the place of those that it begins with. If there is no room for it, it is not kept.
        """
        if any(prefix.tokens[: len(tokens)] == tokens for prefix in self._kept):
            return
        kept = [prefix for prefix in self._kept if prefix.tokens != tokens[: len(prefix.tokens)]]
        room = self.most - len(tokens)
        while kept and sum(len(prefix.tokens) for prefix in kept) > room:
            if self._is_in_use(kept[0]):
                return
            del kept[0]
        if room >= 0:
            self._kept = [*kept, KeptPrefix(tokens, cache.copy(spans))]

    def clear(self) -> None:
        self._kept, self._in_use = [], []


#: For calls that keep nothing: there is no room in it.
NONE_KEPT = KeptPrefixes(0)


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
    elif isinstance(value, Cache | CacheLayerMixin):
        yield from _tensors(vars(value))
