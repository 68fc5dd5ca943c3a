"""Log-likelihoods of continuations, in batches.

`plan` turns pairs into rows, one for each distinct sequence that the model has to read; `score`
runs the rows. Another plan, one that shares the prefixes of rows as well, only has to yield the
same answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from multiform.models.base import Answer
from multiform.models.hf.head import Head
from multiform.models.hf.limits import Limits, run_batches
from multiform.models.hf.tokens import Pair, Tokens
from multiform.requests import LLOutput


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


def score(head: Head, pairs: Sequence[Pair], limits: Limits) -> Iterator[Answer[LLOutput]]:
    """The log-likelihood of each pair's continuation, and whether greedy decoding would write it.

    An empty continuation is certain: its log-likelihood is 0.
    """
    for index, pair in enumerate(pairs):
        if pair.start == len(pair.tokens):
            yield index, LLOutput(0.0, True)
    if not head.separable:
        limits = replace(limits, tokens=min(limits.tokens, head.affordable))
    rows = plan(pairs)
    batches = run_batches(rows, lambda row: len(row.tokens), limits, lambda batch: score_rows(head, batch))
    for answers in batches:
        yield from answers


def plan(pairs: Sequence[Pair]) -> list[Row]:
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
def score_rows(head: Head, rows: Sequence[Row]) -> list[Answer[LLOutput]]:
    """The answers of one batch."""
    positions = torch.tensor([(i, c) for i, row in enumerate(rows) for c in _scored_columns(row)])
    places, tokens = _targets(rows)
    place, token = torch.tensor(places), torch.tensor(tokens)
    logprob = torch.empty(len(tokens), dtype=torch.float64)
    greedy = torch.empty(len(tokens), dtype=torch.bool)
    # Padding stands to the right of every token that a causal model looks at, so it needs no mask.
    for start, logits in head.logits(right_padded(rows, head.model.device), *positions.unbind(1)):
        here = (place >= start) & (place < start + len(logits))
        inside, wanted = (place[here] - start).to(logits.device), token[here].to(logits.device)
        # torch's float32 log_softmax is ten times further off on a CPU than this difference.
        logprob[here] = (logits[inside, wanted] - logits.logsumexp(-1)[inside]).double().cpu()
        greedy[here] = (logits.argmax(-1)[inside] == wanted).cpu()
    sizes = [len(continuation) for row in rows for _, continuation in row.targets]
    totals = [float(part.sum()) for part in torch.split(logprob, sizes)]
    exact = [bool(part.all()) for part in torch.split(greedy, sizes)]
    indices = [index for row in rows for index, _ in row.targets]
    return list(zip(indices, map(LLOutput, totals, exact), strict=True))


def right_padded(rows: Sequence[Row], device: torch.device) -> Tensor:
    """The rows' tokens as one rectangle."""
    ids = torch.zeros(len(rows), max(len(row.tokens) for row in rows), dtype=torch.long)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row.tokens)] = torch.frombuffer(row.tokens, dtype=torch.int32)
    return ids.to(device)


def _scored_columns(row: Row) -> range:
    return range(len(row.tokens) - row.scored, len(row.tokens))


def _targets(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    """Of each continuation's tokens, one after the other: the scored position, and the token."""
    places: list[int] = []
    tokens: list[int] = []
    end = 0
    for row in rows:
        end += row.scored
        for _, continuation in row.targets:
            places.extend(range(end - len(continuation), end))
            tokens.extend(continuation)
    return places, tokens
