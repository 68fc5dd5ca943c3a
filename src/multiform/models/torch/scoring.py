"""Log-likelihoods of continuations: by plan, which computes shared prefixes once, or in batches of whole sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import count, groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from multiform.models.torch.batching import BatchLimits, halve_pass, run_batches, run_in_memory
from multiform.models.torch.cache import KVCache
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.forward import Forward
from multiform.models.torch.logits import STABLE_ROWS, LMHead, LoglikelihoodSums, reset_positions, token_logprobs
from multiform.models.torch.plan import Pass, Plan, Tokens, plan
from multiform.models.torch.sequences import Pair
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response
from multiform.stopping import stop_requested

#: Lines of logits that are computed together, at least: for a few, loading the weights of the vocabulary takes longest.
ENOUGH = 32


def score_by_plan(
    forward: Forward, pairs: Sequence[Pair], *, size: int, budget: int, counters: Counters
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, pass by pass.

    When a pass does not fit into memory, the pairs without a response are planned again with passes of half
    the size. When a stop is requested, no further pass begins.
    """
    yield from LoglikelihoodSums(pairs).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.start < len(pair.tokens)]
    while waiting:
        remaining = [pairs[index] for index in waiting]
        scored: set[int] = set()
        planned = scoring_plan(remaining, size=size, budget=budget)
        for position, output in _run_plan(forward, remaining, planned, counters):
            scored.add(position)
            yield waiting[position], output
        waiting = [index for position, index in enumerate(waiting) if position not in scored]
        if stop_requested():
            return
        if waiting:
            size = halve_pass(size)


def scoring_plan(pairs: Sequence[Pair], *, size: int, budget: int) -> Plan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    return plan([pair.tokens[:-1] for pair in pairs], [pair.start - 1 for pair in pairs], size=size, budget=budget)


def _run_plan(
    forward: Forward, pairs: Sequence[Pair], planned: Plan, counters: Counters
) -> Iterator[Response[LLOutput]]:
    """The responses until all are there, memory runs out or a stop is requested."""
    pending = _PendingTokens(forward.head, LoglikelihoodSums(pairs))
    cache = KVCache()
    for step in planned.passes:
        responses = run_in_memory(lambda step=step: _run_pass(forward, pairs, planned, step, cache, pending))  # type: ignore[misc]
        if responses is None:
            return
        counters.count_prefill(step.computed_tokens)
        yield from responses
        if stop_requested():
            yield from run_in_memory(torch.inference_mode()(pending.score)) or ()
            return


@torch.inference_mode()
def _run_pass(
    forward: Forward, pairs: Sequence[Pair], planned: Plan, step: Pass, cache: KVCache, pending: _PendingTokens
) -> list[Response[LLOutput]]:
    rows: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    offset = 0
    for chunk in step.chunks:
        for needed in planned.branches[chunk.branch].needed:
            start, stop = max(needed.start, chunk.new_from), min(needed.stop, chunk.stop)
            if start < stop:
                rows.extend(range(offset + start - chunk.start, offset + stop - chunk.start))
                tokens.extend(pairs[needed.request].tokens[start + 1 : stop + 1])
                owners.extend([needed.request] * (stop - start))
        offset += chunk.stop - chunk.start
    distinct, lines = np.unique(np.array(rows, dtype=np.int64), return_inverse=True)
    pending.add(forward.run(planned.branches, step, cache, distinct), lines, tokens, owners)
    cache.keep(step.keep)
    return pending.score() if pending.is_enough or step is planned.passes[-1] else []


class _PendingTokens:
    """Tokens to be scored, collected over several passes until their logits are worth computing."""

    def __init__(self, head: LMHead, sums: LoglikelihoodSums) -> None:
        self.head = head
        self.sums = sums
        self._clear()

    def add(self, states: Tensor, lines: NDArray[np.int64], tokens: Sequence[int], owners: Sequence[int]) -> None:
        """Add the states of a pass; each token has the number of its line of states and the pair that owns it."""
        self.states.append(states)
        self.lines.append(lines + self.size)
        self.tokens.extend(tokens)
        self.owners.extend(owners)
        self.size += len(states)

    @property
    def is_enough(self) -> bool:
        return self.size >= ENOUGH

    def score(self) -> list[Response[LLOutput]]:
        """Score all tokens, and return the responses of the pairs that are complete."""
        if not self.tokens:
            return []
        states = torch.cat(self.states)
        logits = self.head.logits(pad(states, (0, 0, 0, max(0, STABLE_ROWS - self.size))))
        scores = token_logprobs(logits, np.concatenate(self.lines), self.tokens)
        responses = list(self.sums.add(np.array(self.owners, dtype=np.int64), *scores))
        self._clear()
        return responses

    def _clear(self) -> None:
        self.states: list[Tensor] = []
        self.lines: list[NDArray[np.int64]] = []
        self.tokens: list[int] = []
        self.owners: list[int] = []
        self.size = 0


class Grouping(Enum):
    """Which rows may be in one batch, from the fastest way to the one that is right for every model."""

    #: Rows of any length, padded at the right: no token of a causal model sees the padding.
    PADDED = auto()
    #: Rows of one length, for models in which padding changes the numbers, such as positions scaled by the longest row.
    EQUAL_LENGTHS = auto()
    #: One row at a time.
    ALONE = auto()


@dataclass(frozen=True, slots=True)
class InputRow:
    """An input sequence, and the continuations that are scored at its end.

    Each target is the index of its pair and the continuation's tokens; the logits at the row's last
    position score the last of them.
    """

    tokens: Tokens
    targets: list[tuple[int, Tokens]] = field(default_factory=list)

    @property
    def num_scored(self) -> int:
        """The number of positions at the end of the row whose logits are needed."""
        return max(len(continuation) for _, continuation in self.targets)


def score_by_batch(
    head: LMHead, pairs: Sequence[Pair], limits: BatchLimits, counters: Counters, grouping: Grouping = Grouping.PADDED
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch."""
    sums = LoglikelihoodSums(pairs)
    yield from sums.empty()
    if not head.separable:
        limits = replace(limits, tokens=min(limits.tokens, head.max_tokens))

    def run(batch: Sequence[InputRow]) -> list[Response[LLOutput]]:
        return _score_batch(head, batch, sums, counters)

    for group in group_rows(rows_of(pairs), grouping):
        for responses in run_batches(group, lambda row: len(row.tokens), limits, run):
            yield from responses


def group_rows(rows: Sequence[InputRow], grouping: Grouping) -> list[list[InputRow]]:
    """The rows that may be in one batch, group by group; rows of one length are next to each other."""
    number = count()
    keys = {
        Grouping.PADDED: lambda _: 0,
        Grouping.EQUAL_LENGTHS: lambda row: len(row.tokens),
        Grouping.ALONE: lambda _: next(number),
    }
    return [list(group) for _, group in groupby(rows, keys[grouping])]


def rows_of(pairs: Sequence[Pair]) -> list[InputRow]:
    """The distinct input sequences, longest first.

    The last token of a pair is not an input, so the one-token labels of one question are a single row.
    """
    rows: dict[bytes, InputRow] = {}
    for index, pair in enumerate(pairs):
        if pair.start == len(pair.tokens):
            continue
        inputs = pair.tokens[:-1]
        row = rows.setdefault(inputs.tobytes(), InputRow(inputs))
        row.targets.append((index, pair.tokens[pair.start :]))
    # Among equal lengths, rows with a common prefix are next to each other.
    return sorted(rows.values(), key=lambda row: (-len(row.tokens), row.tokens))


@torch.inference_mode()
def _score_batch(
    head: LMHead, rows: Sequence[InputRow], sums: LoglikelihoodSums, counters: Counters
) -> list[Response[LLOutput]]:
    scored = torch.tensor(
        [(number, position) for number, row in enumerate(rows) for position in _scored_positions(row)]
    )
    lines: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    end = 0
    for row in rows:
        end += row.num_scored
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


def _right_padded(rows: Sequence[InputRow], device: torch.device) -> Tensor:
    ids = torch.zeros(len(rows), max(len(row.tokens) for row in rows), dtype=torch.long)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row.tokens)] = torch.frombuffer(row.tokens, dtype=torch.int32)
    return to_device(ids, device)


def _scored_positions(row: InputRow) -> range:
    """The positions of a row whose logits are needed."""
    return range(len(row.tokens) - row.num_scored, len(row.tokens))
