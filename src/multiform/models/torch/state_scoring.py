"""Log-likelihoods by copied states: sequences with a common prefix begin with the state that the model has after it.

For models that cannot share a prefix tree: recurrent and hybrid ones, and those that count columns or have windows of
their own. Nothing but the model's own forward pass and cache is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

import numpy as np
import torch
from torch import Tensor

from multiform.models.torch.batching import BatchLimits, halve_limits, run_in_memory
from multiform.models.torch.cache import ModelState
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.logits import LMHead, LoglikelihoodSums, reset_positions, token_logprobs
from multiform.models.torch.sequences import Pair
from multiform.models.torch.state_plan import LEAST_SAVED, BatchSize, StateBatch, StatePlan, plan_states
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response
from multiform.stopping import stop_requested


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
    yield from LoglikelihoodSums(pairs).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.start < len(pair.tokens)]
    while waiting and not stop_requested():
        remaining = [pairs[index] for index in waiting]
        planned = state_plan(head, remaining, limits, resume, max_kept=max_kept, least=least)
        scored: set[int] = set()
        failed: StateBatch | None = None
        for responses in _run_plan(head, remaining, planned, counters, resume):
            if isinstance(responses, StateBatch):
                failed = responses
                break
            for position, output in responses:
                scored.add(position)
                yield waiting[position], output
        waiting = [index for position, index in enumerate(waiting) if position not in scored]
        if failed is not None:
            limits = halve_limits(limits, len(failed.rows), max(row.stop for row in failed.rows))


def state_plan(
    head: LMHead, pairs: Sequence[Pair], limits: BatchLimits, resume: Resume, *, max_kept: int, least: int = LEAST_SAVED
) -> StatePlan:
    """The plan for pairs with continuations: the model's inputs are all tokens but the last."""
    tokens = limits.tokens if head.separable else min(limits.tokens, head.max_tokens)
    return plan_states(
        [pair.tokens[:-1] for pair in pairs],
        [pair.start - 1 for pair in pairs],
        size=BatchSize(limits.rows, tokens, max_kept),
        stepwise=resume.is_stepwise,
        least=least,
    )


def _run_plan(
    head: LMHead, pairs: Sequence[Pair], planned: StatePlan, counters: Counters, resume: Resume
) -> Iterator[list[Response[LLOutput]] | StateBatch]:
    """The responses of each batch until a stop is requested; last, the batch that did not fit into memory, if any."""
    sums = LoglikelihoodSums(pairs)
    states: dict[int, ModelState] = {}
    for number, batch in enumerate(planned.batches):
        if stop_requested():
            return
        result = run_in_memory(lambda batch=batch: _run_batch(head, pairs, planned, batch, states, sums, resume))  # type: ignore[misc]
        if result is None:
            states.clear()
            yield batch
            return
        responses, state = result
        if state is not None:
            states[number] = state
        for released in batch.released:
            del states[released]
        counters.count_prefill(len(batch.rows) * batch.width)
        yield responses


@torch.inference_mode()
def _run_batch(
    head: LMHead,
    pairs: Sequence[Pair],
    planned: StatePlan,
    batch: StateBatch,
    states: dict[int, ModelState],
    sums: LoglikelihoodSums,
    resume: Resume,
) -> tuple[list[Response[LLOutput]], ModelState | None]:
    """Compute a batch: the responses that are complete, and its state where it is kept."""
    lines: list[tuple[int, int]] = []
    tokens: list[int] = []
    owners: list[int] = []
    for number, row in enumerate(batch.rows):
        for needed in planned.branches[row.branch].needed:
            start, stop = max(needed.start, row.start), min(needed.stop, row.stop)
            if start < stop:
                lines.extend((number, depth - row.start) for depth in range(start, stop))
                tokens.extend(pairs[needed.request].tokens[start + 1 : stop + 1])
                owners.extend([needed.request] * (stop - start))
    ids = to_device(_right_padded(planned, batch), device_of(head.model))
    reset_positions(head.model)
    if batch.parent < 0:
        outputs, state = _first_pass(head, ids, batch.is_kept)
    else:
        parent = states[batch.parent].rows([row.parent_row for row in batch.rows])
        outputs, state = _resume(head, ids, parent, batch.rows[0].start, resume)
    if not lines:
        return [], state if batch.is_kept else None
    places = torch.tensor(lines, device=outputs.device)
    distinct, inverse = torch.unique(places, dim=0, return_inverse=True)
    selected = outputs[distinct[:, 0], distinct[:, 1]]
    scores = token_logprobs(head.logits(selected), inverse.cpu().numpy(), tokens)
    return list(sums.add(np.array(owners, dtype=np.int64), *scores)), state if batch.is_kept else None


def _first_pass(head: LMHead, ids: Tensor, is_kept: bool) -> tuple[Tensor, ModelState | None]:
    """The outputs (row, token, dimension) of whole sequences, and the state after them where it is kept."""
    outputs, result = head.run(input_ids=ids, use_cache=is_kept)
    return outputs, ModelState.of(result) if is_kept else None


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


def _right_padded(planned: StatePlan, batch: StateBatch) -> Tensor:
    """The tokens of a batch's rows. Only rows of one length are kept, so padding never becomes part of a state."""
    ids = torch.zeros(len(batch.rows), batch.width, dtype=torch.long)
    for line, row in zip(ids, batch.rows, strict=True):
        tokens = planned.branches[row.branch].tokens[row.start : row.stop]
        line[: len(tokens)] = torch.frombuffer(tokens, dtype=torch.int32)
    return ids
