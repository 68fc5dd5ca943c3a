"""Log-likelihoods in batches of whole sequences: more work than a plan, for models that cannot share prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import count, groupby

import numpy as np
import torch
from torch import Tensor

from multiform.models.torch.batching import run_batches
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.limits import Limits
from multiform.models.torch.lm_head import LMHead
from multiform.models.torch.plain import reset_positions
from multiform.models.torch.plan import Tokens
from multiform.models.torch.scoring.loglikelihood import LoglikelihoodSums, token_logprobs
from multiform.models.torch.sequences import Pair
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response


class Grouping(Enum):
    """Which rows may be in one batch, from the fastest way to the one that is right for every model."""

    #: Rows of any length, padded at the right: no token of a causal model sees the padding.
    PADDED = auto()
    #: Rows of one length, for models in which padding changes the numbers, such as positions scaled by the longest row.
    EQUAL_LENGTHS = auto()
    #: One row at a time.
    ALONE = auto()


@dataclass(frozen=True, slots=True)
class Row:
    """An input sequence, and the continuations that are scored at its end.

    Each target is the index of its pair and the continuation's tokens; the logits at the row's last
    position score the last of them.
    """

    tokens: Tokens
    targets: list[tuple[int, Tokens]] = field(default_factory=list)

    @property
    def scored(self) -> int:
        """The number of positions at the end of the row whose logits are needed."""
        return max(len(continuation) for _, continuation in self.targets)


def score_by_batch(
    head: LMHead, pairs: Sequence[Pair], limits: Limits, counters: Counters, grouping: Grouping = Grouping.PADDED
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch."""
    sums = LoglikelihoodSums(pairs)
    yield from sums.empty()
    if not head.separable:
        limits = replace(limits, tokens=min(limits.tokens, head.max_tokens))

    def run(batch: Sequence[Row]) -> list[Response[LLOutput]]:
        return _score_batch(head, batch, sums, counters)

    for group in grouped(rows_of(pairs), grouping):
        for responses in run_batches(group, lambda row: len(row.tokens), limits, run):
            yield from responses


def grouped(rows: Sequence[Row], grouping: Grouping) -> list[list[Row]]:
    """The rows that may be in one batch, group by group; rows of one length are next to each other."""
    number = count()
    keys = {
        Grouping.PADDED: lambda _: 0,
        Grouping.EQUAL_LENGTHS: lambda row: len(row.tokens),
        Grouping.ALONE: lambda _: next(number),
    }
    return [list(group) for _, group in groupby(rows, keys[grouping])]


def rows_of(pairs: Sequence[Pair]) -> list[Row]:
    """The distinct input sequences, longest first.

    The last token of a pair is not an input, so the one-token labels of one question are a single row.
    """
    rows: dict[bytes, Row] = {}
    for index, pair in enumerate(pairs):
        if pair.start == len(pair.tokens):
            continue
        inputs = pair.tokens[:-1]
        row = rows.setdefault(inputs.tobytes(), Row(inputs))
        row.targets.append((index, pair.tokens[pair.start :]))
    # Among equal lengths, rows with a common prefix are next to each other.
    return sorted(rows.values(), key=lambda row: (-len(row.tokens), row.tokens))


@torch.inference_mode()
def _score_batch(
    head: LMHead, rows: Sequence[Row], sums: LoglikelihoodSums, counters: Counters
) -> list[Response[LLOutput]]:
    scored = torch.tensor([(number, position) for number, row in enumerate(rows) for position in _scored(row)])
    lines: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    end = 0
    for row in rows:
        end += row.scored
        for owner, continuation in row.targets:
            lines.extend(range(end - len(continuation), end))
            tokens.extend(continuation)
            owners.extend([owner] * len(continuation))
    ids = _right_padded(rows, device_of(head.model))
    reset_positions(head.model)
    # Padding stands to the right of every token that a causal model looks at, so it needs no mask.
    states = head.hidden_states(*scored.unbind(1), input_ids=ids, use_cache=False)
    scores = token_logprobs(head.logits(states), np.array(lines), tokens)
    counters.count_prefill(ids.numel())
    return list(sums.add(np.array(owners), *scores))


def _right_padded(rows: Sequence[Row], device: torch.device) -> Tensor:
    ids = torch.zeros(len(rows), max(len(row.tokens) for row in rows), dtype=torch.long)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row.tokens)] = torch.frombuffer(row.tokens, dtype=torch.int32)
    return to_device(ids, device)


def _scored(row: Row) -> range:
    """The positions of a row whose logits are needed."""
    return range(len(row.tokens) - row.scored, len(row.tokens))
