"""Runs plans: the tokens of many sequences in one pass, each of which sees its own prefix alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from multiform.models.base import Answer
from multiform.models.hf.counters import Counters
from multiform.models.hf.head import Head
from multiform.models.hf.limits import attempt, fewer_tokens
from multiform.models.hf.tokens import Pair
from multiform.models.hf.totals import Totals, token_scores
from multiform.plan import Branch, Pass, Plan, Span, plan
from multiform.requests import LLOutput


def score_by_plan(
    head: Head, pairs: Sequence[Pair], *, size: int, budget: int, counters: Counters
) -> Iterator[Answer[LLOutput]]:
    """The answer of each pair, pass by pass.

    A pass that does not fit into memory is planned again at half its size, with all that has no
    answer yet.
    """
    yield from Totals(pairs).empty()
    waiting = [index for index, pair in enumerate(pairs) if pair.start < len(pair.tokens)]
    while waiting:
        asked = [pairs[index] for index in waiting]
        answered: set[int] = set()
        for position, output in _run(head, asked, score_plan(asked, size=size, budget=budget), counters):
            answered.add(position)
            yield waiting[position], output
        waiting = [index for position, index in enumerate(waiting) if position not in answered]
        if waiting:
            size = fewer_tokens(size)


def score_plan(pairs: Sequence[Pair], *, size: int, budget: int) -> Plan:
    """The plan for pairs of which none is empty: the model reads all tokens but the last."""
    return plan([pair.tokens[:-1] for pair in pairs], [pair.start - 1 for pair in pairs], size=size, budget=budget)


def _run(head: Head, pairs: Sequence[Pair], planned: Plan, counters: Counters) -> Iterator[Answer[LLOutput]]:
    """The answers until all are there or memory runs out."""
    totals = Totals(pairs)
    cache = DynamicCache()
    for step in planned.passes:
        answers = attempt(lambda step=step: _score_pass(head, pairs, planned.branches, step, cache, totals))  # type: ignore[misc]
        if answers is None:
            return
        counters.read(step.computed)
        yield from answers


@torch.inference_mode()
def _score_pass(
    head: Head, pairs: Sequence[Pair], branches: Sequence[Branch], step: Pass, cache: DynamicCache, totals: Totals
) -> list[Answer[LLOutput]]:
    rows: list[int] = []
    tokens: list[int] = []
    owners: list[int] = []
    offset = 0
    for piece in step.pieces:
        for read in branches[piece.branch].reads:
            start, stop = max(read.start, piece.fresh), min(read.stop, piece.stop)
            if start < stop:
                rows.extend(range(offset + start - piece.start, offset + stop - piece.start))
                tokens.extend(pairs[read.request].tokens[start + 1 : stop + 1])
                owners.extend([read.request] * (stop - start))
        offset += piece.stop - piece.start
    columns, places = np.unique(np.array(rows, dtype=np.int64), return_inverse=True)
    logits = run_pass(head, branches, step, cache, columns)
    scores = token_scores(logits, places, tokens)
    keep(cache, step.keep)
    return list(totals.add(np.array(owners, dtype=np.int64), *scores))


def run_pass(
    head: Head, branches: Sequence[Branch], step: Pass, cache: DynamicCache, columns: NDArray[np.int64]
) -> Iterator[tuple[int, Tensor]]:
    """The logits at columns of a pass, in pieces; all its tokens are added to the cache."""
    device = head.model.device
    ids = np.concatenate(
        [np.frombuffer(branches[piece.branch].tokens, np.int32)[piece.start : piece.stop] for piece in step.pieces]
    )
    positions = np.concatenate([np.arange(piece.start, piece.stop) for piece in step.pieces])
    yield from head.logits(
        torch.zeros(len(columns), dtype=torch.long),
        torch.from_numpy(columns),
        input_ids=torch.from_numpy(ids).long()[None].to(device),
        position_ids=torch.from_numpy(positions)[None].to(device),
        attention_mask=attention_mask(step, head.model.dtype).to(device),
        past_key_values=cache,
        use_cache=True,
    )


def attention_mask(step: Pass, dtype: torch.dtype) -> Tensor:
    """0 where a token of the pass sees a column, and minus infinity elsewhere; in four dimensions."""
    size = step.computed
    mask = torch.full((size, step.kept + size), float("-inf"), dtype=dtype)
    after = torch.full((size, size), float("-inf"), dtype=dtype).triu_(1)
    row = 0
    for piece in step.pieces:
        length = piece.stop - piece.start
        lines = mask[row : row + length]
        for span in piece.behind:
            lines[:, span.start : span.stop] = 0
        lines[:, step.kept + row : step.kept + row + length] = after[:length, :length]
        row += length
    return mask[None, None]


def keep(cache: DynamicCache, spans: Sequence[Span]) -> None:
    """Drop all columns of a cache but these."""
    if not spans:
        cache.layers.clear()
        return
    for layer in cache.layers:
        # A copy, because a view would hold the memory of the columns that are dropped.
        layer.keys = torch.cat([layer.keys[..., span.start : span.stop, :] for span in spans], -2)
        layer.values = torch.cat([layer.values[..., span.start : span.stop, :] for span in spans], -2)
