"""Decoding in which texts that begin alike share the keys and values of what they have in common."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multiform.inference.counters import Counters
from multiform.inference.decode.prefix_group import Group
from multiform.inference.device import device_of
from multiform.inference.forward import Passes
from multiform.inference.kv_cache import Columns
from multiform.inference.plan import Piece, Span, Tokens, plan


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A row to be read: its own tokens, after the prefix of its group."""

    name: int
    tokens: Tokens


class SharedState:
    """Rows in groups, each with one prefix; a pass computes the next token of all of them."""

    def __init__(self, passes: Passes, counters: Counters, *, size: int) -> None:
        self.passes = passes
        self.counters = counters
        self.size = size
        self.groups: dict[tuple[int, ...], Group] = {}
        self.order: list[int] = []
        self.count = 0

    def admit(self, prompts: Sequence[Sequence[int]], prefixes: Sequence[int]) -> Tensor:
        """Add rows at the end, and give the logits that follow each of their prompts."""
        families: dict[tuple[int, ...], list[Newcomer]] = {}
        for prompt, length in zip(prompts, prefixes, strict=True):
            newcomer = Newcomer(self.count, array("i", prompt[length:]))
            families.setdefault(tuple(prompt[:length]), []).append(newcomer)
            self.order.append(self.count)
            self.count += 1
        logits: dict[int, Tensor] = {}
        for prefix, newcomers in families.items():
            logits |= self._read(self._group(prefix), newcomers)
        # The group that was used last may be wanted again; others are there for their rows alone.
        last = next(reversed(families))
        self.groups = {key: group for key, group in self.groups.items() if group.names or key == last}
        return torch.stack([logits[name] for name in self.order[-len(prompts) :]])

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Put one token at the end of every row, and give the logits that follow."""
        groups = [group for group in self.groups.values() if group.names]
        given = dict(zip(self.order, tokens, strict=True))
        names = [name for group in groups for name in group.names]
        positions = [group.prefix + length for group in groups for length in group.lengths]
        sizes = [len(group.names) for group in groups]
        for group in groups:
            group.grow()

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
            parts = zip(groups, *(torch.split(part, sizes) for part in (query, key, value)), strict=True)
            return torch.cat([group.attend(layer, q, k, v, scale) for group, q, k, v in parts])

        device = device_of(self.passes.head.model)
        ids, at = (
            torch.tensor(column, device=device)[:, None] for column in ([given[name] for name in names], positions)
        )
        lines = self.passes.attended(ids, at, attend)
        self.counters.wrote(len(names))
        logits = torch.cat([piece for _, piece in self.passes.head.logits(lines)])
        places = {name: place for place, name in enumerate(names)}
        return logits[[places[name] for name in self.order]]

    def keep(self, rows: Sequence[int]) -> None:
        """Forget all rows but these."""
        kept = [self.order[row] for row in rows]
        gone = set(self.order) - set(kept)
        for group in self.groups.values():
            for name in gone.intersection(group.names):
                group.remove(name)
        self.order = kept

    def _group(self, prefix: tuple[int, ...]) -> Group:
        """The group of a prefix, which is computed after the longest part of it that is known."""
        if prefix not in self.groups:
            known = max((key for key in self.groups if key == prefix[: len(key)]), key=len, default=())
            columns = self.groups[known].shared.copy() if known else Columns()
            if prefix:
                self._run([array("i", prefix[len(known) :])], columns, len(known))
            columns.length = len(prefix)
            self.groups[prefix] = Group(len(prefix), columns)
        return self.groups[prefix]

    def _read(self, group: Group, newcomers: Sequence[Newcomer]) -> dict[int, Tensor]:
        """Read the own tokens of newcomers and take them into the group; gives the logits after each."""
        sequences = [newcomer.tokens for newcomer in newcomers]
        ends = self._run(sequences, group.shared, group.prefix)
        group.shared.length = group.prefix
        group.add([(newcomer.name, own) for newcomer, (_, own) in zip(newcomers, ends, strict=True)])
        return {newcomer.name: line for newcomer, (line, _) in zip(newcomers, ends, strict=True)}

    def _run(
        self, sequences: Sequence[Tokens], columns: Columns, base: int
    ) -> list[tuple[Tensor, list[tuple[Tensor, Tensor]]]]:
        """Compute sequences after the columns' tokens; of each the last logits, and the keys and values by layer."""
        planned = plan(sequences, [len(tokens) - 1 for tokens in sequences], size=self.size, budget=2**31)
        found: dict[int, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = {}
        for number, step in enumerate(planned.passes):
            ends: list[tuple[Piece, int]] = []
            column = step.kept
            for piece in step.pieces:
                column += piece.stop - piece.start
                if piece.stop == len(planned.branches[piece.branch].tokens):
                    ends.append((piece, column))
            places = np.array([column - step.kept - 1 for _, column in ends], dtype=np.int64)
            states = self.passes.run(planned.branches, step, columns, places, base)
            self.counters.read(step.computed)
            lines = [line for _, piece in self.passes.head.logits(states) for line in piece]
            for (piece, column), line in zip(ends, lines, strict=True):
                spans = [*piece.behind, Span(column - (piece.stop - piece.start), column)]
                own = columns.take(_after(base, spans))
                for member in planned.branches[piece.branch].members:
                    found[member] = line, own
            if number < len(planned.passes) - 1:
                columns.keep([Span(0, base), *_after(base, step.keep)])
        return [found[index] for index in range(len(sequences))]


def _after(base: int, spans: Sequence[Span]) -> list[Span]:
    return [Span(base + span.start, base + span.stop) for span in spans]
