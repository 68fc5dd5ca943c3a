"""The state of a model after some tokens: all that it caches, and copies of it for sequences that resume from there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

#: The names under which models return their state, and take it again.
NAMES = ("past_key_values", "cache_params", "state")


@dataclass(frozen=True, slots=True)
class ModelState:
    """What a model returned beside its output, under the name by which it takes it again."""

    name: str
    value: Any

    @classmethod
    def of(cls, output: Any) -> ModelState:
        """The state in a model's output; a ValueError where it has none, or none that can be copied."""
        for name in NAMES:
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
        return ModelState(self.name, _selected(self.value, torch.tensor(numbers)))

    @property
    def nbytes(self) -> int:
        """The memory of all rows."""
        return sum(tensor.nbytes for tensor in _tensors(self.value))


def _selected(value: Any, numbers: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, numbers.to(value.device))
    return type(value)(_selected(part, numbers) for part in value)


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
