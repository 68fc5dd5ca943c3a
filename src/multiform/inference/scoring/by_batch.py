"""Log-likelihoods in batches of whole sequences: more work than a plan, and right for every causal model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from multiform.inference.counters import Counters
from multiform.inference.device import device_of
from multiform.inference.limits import Limits, run_batches
from multiform.inference.lm_head import Head
from multiform.inference.plan import Tokens
from multiform.inference.scoring.loglikelihood import Totals, token_scores
from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence to read, and the continuations that are scored at its end.

    Each target is the position of its pair and the continuation's tokens; the model's output at
    the row's last position scores the last of them.
    """

    tokens: Tokens
    targets: list[tuple[int, Tokens]] = field(default_factory=list)

    @property
    def scored(self) -> int:
        """How many positions at the end of the row are needed."""
        return max(len(continuation) for _, continuation in self.targets)


def score_by_rows(
    head: Head, pairs: Sequence[Pair], limits: Limits, counters: Counters
) -> Iterator[Response[LLOutput]]:
    """The answer of each pair, batch by batch."""
    totals = Totals(pairs)
    yield from totals.empty()
    if not head.separable:
        limits = replace(limits, tokens=min(limits.tokens, head.affordable))

    def run(batch: Sequence[Row]) -> list[Response[LLOutput]]:
        return score_rows(head, batch, totals, counters)

    for answers in run_batches(rows_of(pairs), lambda row: len(row.tokens), limits, run):
        yield from answers


def rows_of(pairs: Sequence[Pair]) -> list[Row]:
    """The distinct sequences to read, longest first.

    The model reads a pair's tokens without the last, so the one-token labels of one question are
    a single row.
    """
    rows: dict[bytes, Row] = {}
    for index, pair in enumerate(pairs):
        if pair.start == len(pair.tokens):
            continue
        read = pair.tokens[:-1]
        row = rows.setdefault(read.tobytes(), Row(read))
        row.targets.append((index, pair.tokens[pair.start :]))
    # Equal lengths sorted by content put rows with a common beginning next to each other.
    return sorted(rows.values(), key=lambda row: (-len(row.tokens), row.tokens))


@torch.inference_mode()
def score_rows(head: Head, rows: Sequence[Row], totals: Totals, counters: Counters) -> list[Response[LLOutput]]:
    """The answers of one batch."""
    positions = torch.tensor([(i, c) for i, row in enumerate(rows) for c in _scored_columns(row)])
    places: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    end = 0
    for row in rows:
        end += row.scored
        for owner, continuation in row.targets:
            places.extend(range(end - len(continuation), end))
            tokens.extend(continuation)
            owners.extend([owner] * len(continuation))
    ids = right_padded(rows, device_of(head.model))
    # Padding stands to the right of every token that a causal model looks at, so it needs no mask.
    states = head.states(*positions.unbind(1), input_ids=ids, use_cache=False)
    scores = token_scores(head.logits(states), np.array(places), tokens)
    counters.read(ids.numel())
    return list(totals.add(np.array(owners), *scores))


def right_padded(rows: Sequence[Row], device: torch.device) -> Tensor:
    """The rows' tokens as one rectangle."""
    ids = torch.zeros(len(rows), max(len(row.tokens) for row in rows), dtype=torch.long)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row.tokens)] = torch.frombuffer(row.tokens, dtype=torch.int32)
    return ids.to(device)


def _scored_columns(row: Row) -> range:
    return range(len(row.tokens) - row.scored, len(row.tokens))
