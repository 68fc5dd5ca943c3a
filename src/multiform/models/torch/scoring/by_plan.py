"""Log-likelihoods by plan: prefixes that pairs share are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from multiform.models.torch.batching import halved_pass, run_in_memory
from multiform.models.torch.forward import Forward
from multiform.models.torch.kv_cache import KVCache
from multiform.models.torch.lm_head import STABLE_ROWS, LMHead
from multiform.models.torch.plan import Pass, Plan, plan
from multiform.models.torch.scoring.loglikelihood import LoglikelihoodSums, token_logprobs
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
            size = halved_pass(size)


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
        counters.count_prefill(step.computed)
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
