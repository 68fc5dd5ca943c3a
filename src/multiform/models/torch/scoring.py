"""Log-likelihoods of continuations: by plan, from copied states, or in batches of whole sequences.

A plan computes shared prefixes once. Models that cannot share a prefix tree (recurrent and hybrid ones, and those that
count columns or have windows of their own) go on from copies of the state that they have after a common prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from itertools import count, groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from multiform.models.model import Counters
from multiform.models.torch.attention import KVCache, ModelState
from multiform.models.torch.device import device_of, halve_limits, halve_pass, run_batches, run_in_memory, to_device
from multiform.models.torch.forward import (
    STABLE_ROWS,
    Forward,
    LMHead,
    LoglikelihoodSums,
    Targets,
    reset_positions,
    right_padded,
)
from multiform.models.torch.kept_prefixes import KeptPrefixes
from multiform.models.torch.plan import BatchLimits, Pair, Pass, Plan, plan
from multiform.models.torch.state_plan import LEAST_SAVED, StateBatch, StatePlan, plan_states
from multiform.models.torch.tree import Tokens
from multiform.requests import LLOutput, Response
from multiform.stopping import stop_requested

#: Lines of logits that are computed together, at least: for a few, loading the weights of the vocabulary takes longest.
ENOUGH = 32


def _score_until_complete(
    pairs: Sequence[Pair], run: Callable[[Sequence[Pair]], Iterator[Response[LLOutput]]]
) -> Iterator[Response[LLOutput]]:
    """The response of each pair. `run` ends early when memory runs out; it is then called with the remaining pairs."""
    yield from LoglikelihoodSums(pairs).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.start < len(pair.tokens)]
    while waiting:
        scored: set[int] = set()
        for position, output in run([pairs[index] for index in waiting]):
            scored.add(position)
            yield waiting[position], output
        waiting = [index for position, index in enumerate(waiting) if position not in scored]
        if stop_requested():
            return


def score_by_plan(
    forward: Forward,
    pairs: Sequence[Pair],
    *,
    size: int,
    budget: int,
    counters: Counters,
    kept: KeptPrefixes | None = None,
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, pass by pass; prefixes in `kept` are not computed again.

    When a pass does not fit into memory, the pairs without a response are planned again with passes of half
    the size. When a stop is requested, no further pass begins.
    """
    kept = kept or KeptPrefixes(0)

    def run(remaining: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        nonlocal size
        prefixes = kept.entries()
        planned = scoring_plan(remaining, size=size, budget=budget, kept=kept)
        kept.use(prefixes[step.load.number] for step in planned.passes if step.load)
        pending = _PendingTokens(forward.head, LoglikelihoodSums(remaining))
        cache = KVCache()

        @torch.inference_mode()
        def run_pass(step: Pass) -> list[Response[LLOutput]]:
            if step.load:
                cache.load(prefixes[step.load.number].cache, step.load.length)
            states, lines, targets = _run_pass(forward, remaining, planned, step, cache)
            pending.add(states, lines, targets)
            for prefix, spans in step.saved:
                kept.add(planned.branches[prefix.number].tokens[: prefix.length], cache, spans)
            cache.keep(step.keep)
            return pending.score() if pending.is_enough or step is planned.passes[-1] else []

        for step in planned.passes:
            responses = run_in_memory(partial(run_pass, step))
            if responses is None:
                size = halve_pass(size)
                kept.clear()
                return
            counters.count_prefill(step.computed_tokens)
            yield from responses
            if stop_requested():
                yield from run_in_memory(torch.inference_mode()(pending.score)) or ()
                return

    return _score_until_complete(pairs, run)


def scoring_plan(pairs: Sequence[Pair], *, size: int, budget: int, kept: KeptPrefixes | None = None) -> Plan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    return plan(
        [pair.tokens[:-1] for pair in pairs],
        [pair.start - 1 for pair in pairs],
        size=size,
        budget=budget,
        kept=[prefix.tokens for prefix in kept.entries()] if kept else (),
        most_kept=kept.most if kept else 0,
    )


def _run_pass(
    forward: Forward, pairs: Sequence[Pair], planned: Plan, step: Pass, cache: KVCache
) -> tuple[Tensor, NDArray[np.int64], Targets]:
    """Compute a pass: the states that are needed, the tokens that they score, and the line of states for each."""
    targets = Targets()
    offset = 0
    for chunk in step.chunks:
        for needed in planned.branches[chunk.branch].needed:
            start, stop = max(needed.start, chunk.new_from), min(needed.stop, chunk.stop)
            if start < stop:
                tokens = pairs[needed.request].tokens[start + 1 : stop + 1]
                targets.add(needed.request, offset + start - chunk.start, tokens)
        offset += chunk.stop - chunk.start
    distinct, lines = targets.distinct_lines()
    return forward.run(planned.branches, step, cache, distinct), lines, targets


class _PendingTokens:
    """Tokens to be scored, collected over several passes until their logits are worth computing."""

    def __init__(self, head: LMHead, sums: LoglikelihoodSums) -> None:
        self.head = head
        self.sums = sums
        self._clear()

    def _clear(self) -> None:
        self.states: list[Tensor] = []
        self.lines: list[NDArray[np.int64]] = []
        self.targets = Targets()
        self.size = 0

    def add(self, states: Tensor, lines: NDArray[np.int64], targets: Targets) -> None:
        """Add the states of a pass; each target has the number of its line of states."""
        self.states.append(states)
        self.lines.append(lines + self.size)
        self.targets.tokens.extend(targets.tokens)
        self.targets.owners.extend(targets.owners)
        self.size += len(states)

    @property
    def is_enough(self) -> bool:
        return self.size >= ENOUGH

    def score(self) -> list[Response[LLOutput]]:
        """Score all tokens, and return the responses of the pairs that are complete."""
        if not self.targets.tokens:
            return []
        states = pad(torch.cat(self.states), (0, 0, 0, max(0, STABLE_ROWS - self.size)))
        responses = self.sums.add(self.head.logits(states), np.concatenate(self.lines), self.targets)
        self._clear()
        return responses


class Resume(Enum):
    """How a model computes the tokens after a state."""

    #: All of them in one forward pass; the model counts their positions, or is told them, as `generate` does.
    AT_ONCE = auto()
    AT_ONCE_POSITIONED = auto()
    #: One token in each forward pass, as in decoding; more would forget the state.
    STEPWISE = auto()
    STEPWISE_POSITIONED = auto()

    @property
    def is_stepwise(self) -> bool:
        return self in (Resume.STEPWISE, Resume.STEPWISE_POSITIONED)

    @property
    def is_positioned(self) -> bool:
        return self in (Resume.AT_ONCE_POSITIONED, Resume.STEPWISE_POSITIONED)


def score_by_state(
    head: LMHead,
    pairs: Sequence[Pair],
    limits: BatchLimits,
    counters: Counters,
    resume: Resume,
    *,
    max_kept: int = 2**31,
    least: int = LEAST_SAVED,
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch; the states of at most `max_kept` tokens are kept in memory.

    When a batch does not fit into memory, the pairs without a response are planned again with half as many rows.
    """

    def run(remaining: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        nonlocal limits
        planned = state_plan(head, remaining, limits, resume, max_kept=max_kept, least=least)
        sums = LoglikelihoodSums(remaining)
        states: dict[int, ModelState] = {}
        for number, batch in enumerate(planned.batches):
            if stop_requested():
                return
            result = run_in_memory(
                lambda batch=batch: _run_state_batch(head, remaining, planned, batch, states, sums, resume)  # type: ignore[misc]
            )
            if result is None:
                limits = halve_limits(limits, len(batch.rows), max(row.stop for row in batch.rows))
                return
            responses, state = result
            if state is not None:
                states[number] = state
            for released in batch.released:
                del states[released]
            counters.count_prefill(len(batch.rows) * batch.width)
            yield from responses

    return _score_until_complete(pairs, run)


def state_plan(
    head: LMHead, pairs: Sequence[Pair], limits: BatchLimits, resume: Resume, *, max_kept: int, least: int = LEAST_SAVED
) -> StatePlan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    return plan_states(
        [pair.tokens[:-1] for pair in pairs],
        [pair.start - 1 for pair in pairs],
        limits=_logits_limits(head, limits),
        max_kept=max_kept,
        stepwise=resume.is_stepwise,
        least=least,
    )


def _logits_limits(head: LMHead, limits: BatchLimits) -> BatchLimits:
    """The limits for a model that may compute the logits of all tokens in a batch."""
    return limits if head.separable else replace(limits, tokens=min(limits.tokens, head.max_tokens))


@torch.inference_mode()
def _run_state_batch(
    head: LMHead,
    pairs: Sequence[Pair],
    planned: StatePlan,
    batch: StateBatch,
    states: dict[int, ModelState],
    sums: LoglikelihoodSums,
    resume: Resume,
) -> tuple[list[Response[LLOutput]], ModelState | None]:
    """Compute a batch: the responses that are complete, and its state where it is kept."""
    targets = Targets()
    for number, row in enumerate(batch.rows):
        for needed in planned.branches[row.branch].needed:
            start, stop = max(needed.start, row.start), min(needed.stop, row.stop)
            if start < stop:
                tokens = pairs[needed.request].tokens[start + 1 : stop + 1]
                targets.add(needed.request, number * batch.width + start - row.start, tokens)
    # Only rows of one length are kept, so padding never becomes part of a state.
    rows = [planned.branches[row.branch].tokens[row.start : row.stop] for row in batch.rows]
    ids = to_device(right_padded(rows), device_of(head.model))
    reset_positions(head.model)
    state: ModelState | None = None
    if batch.parent < 0:
        outputs, result = head.run(input_ids=ids, use_cache=batch.is_kept)
        state = ModelState.of(result) if batch.is_kept else None
    else:
        parent = states[batch.parent].rows([row.parent_row for row in batch.rows])
        outputs, state = _resume(head, ids, parent, batch.rows[0].start, resume)
    state = state if batch.is_kept else None
    if not targets.tokens:
        return [], state
    distinct, lines = targets.distinct_lines()
    selected = outputs.flatten(0, 1)[torch.from_numpy(distinct).to(outputs.device)]
    return sums.add(head.logits(selected), lines, targets), state


def _resume(head: LMHead, ids: Tensor, state: ModelState, start: int, resume: Resume) -> tuple[Tensor, ModelState]:
    """The outputs (row, token, dimension) of tokens after a state, which is at depth `start`, and the state after them.

    Where the model takes one token at a time, these are as many forward passes as the rows have tokens.
    """
    step_outputs = []
    for part in torch.split(ids, 1 if resume.is_stepwise else ids.shape[1], dim=1):
        stop = start + part.shape[1]
        positions = torch.arange(start, stop, device=ids.device).expand(len(ids), -1)
        options = {"position_ids": positions} if resume.is_positioned else {}
        outputs, result = head.run(input_ids=part, use_cache=True, **options, **state.inputs)
        state, start = ModelState.of(result), stop
        step_outputs.append(outputs)
    return torch.cat(step_outputs, 1), state


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


def score_by_batch(
    head: LMHead, pairs: Sequence[Pair], limits: BatchLimits, counters: Counters, grouping: Grouping = Grouping.PADDED
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch."""
    sums = LoglikelihoodSums(pairs)
    yield from sums.empty()

    def run(batch: Sequence[InputRow]) -> list[Response[LLOutput]]:
        return _score_batch(head, batch, sums, counters)

    for group in group_rows(rows_of(pairs), grouping):
        for responses in run_batches(group, lambda row: len(row.tokens), _logits_limits(head, limits), run):
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
    ids = to_device(right_padded([row.tokens for row in rows]), device_of(head.model))
    width = ids.shape[1]
    targets = Targets()
    for number, row in enumerate(rows):
        for owner, continuation in row.targets:
            targets.add(owner, number * width + len(row.tokens) - len(continuation), continuation)
    distinct, lines = targets.distinct_lines()
    reset_positions(head.model)
    # Padding stands to the right of every token that a causal model looks at, so it needs no mask.
    needed = (torch.from_numpy(indices) for indices in divmod(distinct, width))
    states = head.hidden_states(*needed, input_ids=ids, use_cache=False)
    responses = sums.add(head.logits(states), lines, targets)
    counters.count_prefill(ids.numel())
    return responses
