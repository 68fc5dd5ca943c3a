"""Texts in the making that begin alike: one copy of the keys and values of what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from multiform.inference.kv_cache import Columns

#: Own columns are added in steps of this many, so that few tokens need more memory.
COLUMNS = 64


@dataclass(slots=True)
class Group:
    """Rows with a common prefix of `prefix` tokens.

    `shared` has the prefix's keys and values, and `own` has, for each layer, those of each row after it,
    in as many rows and columns as were needed so far. `names` tells which row is in which place
    and `lengths` how many own tokens it has.
    """

    prefix: int
    shared: Columns
    own: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    mask: Tensor = field(default_factory=lambda: torch.empty(0))
    index: Tensor = field(default_factory=lambda: torch.empty(0))

    def add(self, rows: Sequence[tuple[int, Sequence[tuple[Tensor, Tensor]]]]) -> None:
        """Take in rows by name, each with the keys and values (head, token, dimension) of its own tokens."""
        lengths = [own[0][0].shape[1] for _, own in rows]
        self._make_room(len(self.names) + len(rows), max(lengths), rows[0][1])
        for (name, own), length in zip(rows, lengths, strict=True):
            for (keys, values), (new_keys, new_values) in zip(self.own, own, strict=True):
                keys[len(self.names), :, :length] = new_keys
                values[len(self.names), :, :length] = new_values
            self.names.append(name)
            self.lengths.append(length)

    def remove(self, name: int) -> None:
        """Forget a row; the last one takes its place."""
        place, last = self.names.index(name), len(self.names) - 1
        if place < last:
            for keys, values in self.own:
                keys[place, :, : self.lengths[last]] = keys[last, :, : self.lengths[last]]
                values[place, :, : self.lengths[last]] = values[last, :, : self.lengths[last]]
            self.names[place], self.lengths[place] = self.names[last], self.lengths[last]
        self.names.pop()
        self.lengths.pop()

    def grow(self) -> None:
        """Every row gets one more token: make room for it, and see to it that the rows see no more than they have."""
        width = max(self.lengths) + 1
        self._make_room(len(self.names), width, [(keys[0], values[0]) for keys, values in self.own])
        keys = self.own[0][0]
        self.index = torch.tensor(self.lengths, device=keys.device)
        unseen = torch.arange(width, device=keys.device) > self.index[:, None]
        self.mask = torch.zeros(unseen.shape, device=keys.device, dtype=keys.dtype).masked_fill_(unseen, float("-inf"))
        self.lengths = [length + 1 for length in self.lengths]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """The attention of one new token in each row, whose key and value are added to it."""
        rows, heads, _, size = query.shape
        keys, values = self.own[layer]
        places = torch.arange(rows, device=query.device)
        keys[places, :, self.index] = key[:, :, 0]
        values[places, :, self.index] = value[:, :, 0]
        # Several heads of queries have one of keys; those go together as rows of one matrix.
        few = key.shape[1]
        asked = query.reshape(rows, few, heads // few, size) * scale
        width = self.mask.shape[1]
        scores = torch.matmul(asked, keys[:rows, :, :width].transpose(-1, -2)) + self.mask[:, None, None]
        if not self.prefix:
            return torch.matmul(scores.softmax(-1), values[:rows, :, :width]).reshape(rows, heads, 1, size)
        shared_keys, shared_values = (part[0, :, : self.prefix] for part in self.shared.layers[layer])
        together = asked.transpose(0, 1).reshape(few, -1, size)
        before = torch.matmul(together, shared_keys.transpose(-1, -2)).view(few, rows, heads // few, -1)
        weights = torch.cat([before.transpose(0, 1), scores], -1).softmax(-1)
        old, new = weights[..., : self.prefix], weights[..., self.prefix :]
        output = torch.matmul(new, values[:rows, :, :width])
        output += (
            torch.matmul(old.transpose(0, 1).reshape(few, -1, self.prefix), shared_values)
            .view(few, rows, heads // few, size)
            .transpose(0, 1)
        )
        return output.reshape(rows, heads, 1, size)

    def _make_room(self, rows: int, columns: int, like: Sequence[tuple[Tensor, Tensor]]) -> None:
        if not self.own:
            self.own = [(keys[None, :, :0][:0], values[None, :, :0][:0]) for keys, values in like]
        have_rows, _, have_columns, _ = self.own[0][0].shape
        if rows > have_rows or columns > have_columns:
            below = max(0, rows - have_rows)
            # Rounded up: the next tokens fit as well.
            right = max(0, -(-columns // COLUMNS) * COLUMNS - have_columns)
            for layer, (keys, values) in enumerate(self.own):  # one after the other: only one is there twice
                more = (0, 0, 0, right, 0, 0, 0, below)
                self.own[layer] = pad(keys, more), pad(values, more)
