"""Log-likelihoods of continuations: by plan, or in batches, which may go on from copied states.

A plan computes shared prefixes once. Models that cannot share a prefix tree (recurrent and hybrid ones, and those that
count columns or have windows of their own) go on from copies of the state that they have after a common prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from multiform.models.model import Counters
from multiform.models.torch.cache import NONE_KEPT, KeptPrefixes, KVCache, ModelState
from multiform.models.torch.device import device_of, halve_limits, halve_pass, run_in_memory
from multiform.models.torch.forward import (
    CausalLM,
    Forward,
    LoglikelihoodSums,
    ScoringWay,
    Targets,
    pad_rows,
    reset_positions,
)
from multiform.models.torch.plan import BatchLimits, Pair, Pass, Plan, plan
from multiform.models.torch.state_plan import LEAST_SAVED, StateBatch, StatePlan, plan_states
from multiform.requests import LLOutput, Response
from multiform.stopping import stop_requested


def _score_until_complete(
    pairs: Sequence[Pair], run: Callable[[Sequence[Pair]], Iterator[Response[LLOutput]]]
) -> Iterator[Response[LLOutput]]:
    """The response of each pair. `run` ends early when memory runs out; it is then called with the remaining pairs."""
    yield from LoglikelihoodSums([pair.continuation_length for pair in pairs]).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.inputs]
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
    kept: KeptPrefixes = NONE_KEPT,
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, pass by pass; prefixes in `kept` are not computed again.

    When a pass does not fit into memory, the pairs without a response are planned again with passes of half
    the size. When a stop is requested, no further pass begins.
    """

    def run(remaining: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        nonlocal size
        prefixes = kept.entries()
        planned = scoring_plan(remaining, size=size, budget=budget, kept=kept)
        kept.use(prefixes[step.load.number] for step in planned.passes if step.load)
        sums, cache = LoglikelihoodSums([pair.continuation_length for pair in remaining]), KVCache()

        @torch.inference_mode()
        def run_pass(step: Pass) -> list[Response[LLOutput]]:
            if step.load:
                cache.load(prefixes[step.load.number].cache, step.load.length)
            targets = _pass_targets(remaining, planned, step)
            logits = forward.run(planned.branches, step, cache, targets.needed_positions())
            responses = sums.add(logits[None], targets)
            for prefix, spans in step.saved:
                kept.add(planned.branches[prefix.number].tokens[: prefix.length], cache, spans)
            cache.keep(step.keep)
            return responses

        for step in planned.passes:
            if stop_requested():
                return
            responses = run_in_memory(partial(run_pass, step))
            if responses is None:
                size = halve_pass(size)
                kept.clear()
                return
            counters.count_prefill(step.computed_tokens)
            yield from responses

    return _score_until_complete(pairs, run)


def scoring_plan(pairs: Sequence[Pair], *, size: int, budget: int, kept: KeptPrefixes = NONE_KEPT) -> Plan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    return plan(
        [pair.tokens[:-1] for pair in pairs],
        [pair.start - 1 for pair in pairs],
        size=size,
        budget=budget,
        kept=[prefix.tokens for prefix in kept.entries()],
        most_kept=kept.most,
    )


def _pass_targets(pairs: Sequence[Pair], planned: Plan, step: Pass) -> Targets:
    """The tokens that a pass scores, which is one row."""
    targets = Targets()
    offset = 0
    for chunk in step.chunks:
        first = offset + chunk.new_from - chunk.start
        targets.add_needed(pairs, planned.branches[chunk.branch], (chunk.new_from, chunk.stop), row=0, first=first)
        offset += chunk.stop - chunk.start
    return targets


def score_in_batches(
    lm: CausalLM,
    pairs: Sequence[Pair],
    limits: BatchLimits,
    counters: Counters,
    way: ScoringWay = ScoringWay.PADDED,
    *,
    max_kept: int = 2**31,
    least: int = LEAST_SAVED,
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch: after copied states, padded, or alone.

    The states of at most `max_kept` tokens are kept in memory. When a batch does not fit into memory, the pairs without
    a response are planned again with half as many rows. When a stop is requested, no further batch begins.
    """

    def run(remaining: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        nonlocal limits
        planned = batch_plan(lm, remaining, limits, way, max_kept=max_kept, least=least)
        sums = LoglikelihoodSums([pair.continuation_length for pair in remaining])
        states: dict[int, ModelState] = {}
        for number, batch in enumerate(planned.batches):
            if stop_requested():
                return
            result = run_in_memory(partial(_run_batch, lm, remaining, planned, batch, states, sums, way))
            if result is None:
                limits = halve_limits(limits, len(batch.rows), max(row.stop for row in batch.rows))
                return
            responses, state = result
            if state is not None:
                states[number] = state
            if batch.is_last:
                states.pop(batch.parent, None)
            counters.count_prefill(len(batch.rows) * batch.width)
            yield from responses

    return _score_until_complete(pairs, run)


def batch_plan(
    lm: CausalLM,
    pairs: Sequence[Pair],
    limits: BatchLimits,
    way: ScoringWay,
    *,
    max_kept: int,
    least: int = LEAST_SAVED,
) -> StatePlan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    rows = 1 if way is ScoringWay.ALONE else limits.rows
    return plan_states(
        [pair.tokens[:-1] for pair in pairs],
        [pair.start - 1 for pair in pairs],
        limits=replace(limits, rows=rows, tokens=min(limits.tokens, lm.max_tokens)),
        max_kept=max_kept,
        shares=way.copies_states,
        stepwise=way is ScoringWay.STEPWISE,
        least=least,
    )


@torch.inference_mode()
def _run_batch(
    lm: CausalLM,
    pairs: Sequence[Pair],
    planned: StatePlan,
    batch: StateBatch,
    states: dict[int, ModelState],
    sums: LoglikelihoodSums,
    way: ScoringWay,
) -> tuple[list[Response[LLOutput]], ModelState | None]:
    """Compute a batch: the responses that are complete, and its state where it is kept."""
    targets = Targets()
    for number, row in enumerate(batch.rows):
        targets.add_needed(pairs, planned.branches[row.branch], (row.start, row.stop), row=number, first=0)
    # Padding stands to the right of every token that a causal model looks at, so it needs no mask. Only rows of one
    # length are kept, so it never becomes part of a state.
    rows = [planned.branches[row.branch].tokens[row.start : row.stop] for row in batch.rows]
    ids, _ = pad_rows(rows, device_of(lm.model))
    needed_positions = torch.from_numpy(targets.needed_positions())
    reset_positions(lm.model)
    if batch.parent < 0:
        logits, output = lm.run(needed_positions, input_ids=ids, use_cache=batch.is_kept)
        state = ModelState.of(output) if batch.is_kept else None
    else:
        parent = states[batch.parent].rows([row.parent_row for row in batch.rows])
        logits, state = _resume(lm, ids, needed_positions, parent, batch.rows[0].start, way)
    responses = sums.add(logits, targets) if targets.tokens else []
    return responses, state if batch.is_kept else None


def _resume(
    lm: CausalLM, ids: Tensor, needed: Tensor, state: ModelState, start: int, way: ScoringWay
) -> tuple[Tensor, ModelState]:
    """The logits at some positions of tokens after a state, which is at depth `start`, and the state after them.

    Where the model takes one token at a time, these are as many forward passes as the rows have tokens.
    """
    size = 1 if way is ScoringWay.STEPWISE else ids.shape[1]
    step_logits = []
    for first in range(0, ids.shape[1], size):
        part = ids[:, first : first + size]
        depths = torch.arange(start + first, start + first + part.shape[1], device=ids.device)
        positions = needed[(needed >= first) & (needed < first + size)] - first
        inputs = {"input_ids": part, "position_ids": depths.expand(len(ids), -1), "use_cache": True}
        logits, output = lm.run(positions, **inputs, **state.inputs)
        state = ModelState.of(output)
        step_logits.append(logits)
    return torch.cat(step_logits, 1), state
