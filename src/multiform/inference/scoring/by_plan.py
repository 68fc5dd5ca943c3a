"""Log-likelihoods by a plan: what pairs have in common is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from multiform.inference.counters import Counters
from multiform.inference.forward import Passes
from multiform.inference.kv_cache import Columns
from multiform.inference.limits import attempt, fewer_tokens
from multiform.inference.plan import Pass, Plan, plan
from multiform.inference.scoring.gathered import Gathered
from multiform.inference.scoring.loglikelihood import Totals
from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response


def score_by_plan(
    passes: Passes, pairs: Sequence[Pair], *, size: int, budget: int, counters: Counters
) -> Iterator[Response[LLOutput]]:
    """The answer of each pair, pass by pass.

    A pass that does not fit into memory is planned again at half its size, with all that has no
    answer yet.
    """
    yield from Totals(pairs).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.start < len(pair.tokens)]
    while waiting:
        asked = [pairs[index] for index in waiting]
        answered: set[int] = set()
        for position, output in _run(passes, asked, score_plan(asked, size=size, budget=budget), counters):
            answered.add(position)
            yield waiting[position], output
        waiting = [index for position, index in enumerate(waiting) if position not in answered]
        if waiting:
            size = fewer_tokens(size)


def score_plan(pairs: Sequence[Pair], *, size: int, budget: int) -> Plan:
    """The plan for pairs of which none is empty: the model reads all tokens but the last."""
    return plan([pair.tokens[:-1] for pair in pairs], [pair.start - 1 for pair in pairs], size=size, budget=budget)


def _run(passes: Passes, pairs: Sequence[Pair], planned: Plan, counters: Counters) -> Iterator[Response[LLOutput]]:
    """The answers until all are there or memory runs out."""
    gathered = Gathered(passes.head, Totals(pairs))
    columns = Columns()
    for step in planned.passes:
        answers = attempt(lambda step=step: _run_pass(passes, pairs, planned, step, columns, gathered))  # type: ignore[misc]
        if answers is None:
            return
        counters.read(step.computed)
        yield from answers


@torch.inference_mode()
def _run_pass(
    passes: Passes, pairs: Sequence[Pair], planned: Plan, step: Pass, columns: Columns, gathered: Gathered
) -> list[Response[LLOutput]]:
    rows: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    offset = 0
    for piece in step.pieces:
        for read in planned.branches[piece.branch].reads:
            start, stop = max(read.start, piece.fresh), min(read.stop, piece.stop)
            if start < stop:
                rows.extend(range(offset + start - piece.start, offset + stop - piece.start))
                tokens.extend(pairs[read.request].tokens[start + 1 : stop + 1])
                owners.extend([read.request] * (stop - start))
        offset += piece.stop - piece.start
    distinct, places = np.unique(np.array(rows, dtype=np.int64), return_inverse=True)
    gathered.add(passes.run(planned.branches, step, columns, distinct), places, tokens, owners)
    columns.keep(step.keep)
    return gathered.score() if gathered.is_enough or step is planned.passes[-1] else []
