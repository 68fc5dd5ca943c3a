"""Log-likelihoods of continuations: by a plan where the model can run one, and by batches elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiform.models.base import Answer
from multiform.models.hf.counters import Counters
from multiform.models.hf.limits import Limits
from multiform.models.hf.planner import Planner
from multiform.models.hf.rows import score_by_rows
from multiform.models.hf.tokens import Pair
from multiform.models.hf.tree import score_by_plan, score_plan
from multiform.plan import Cost
from multiform.requests import LLOutput


def score(planner: Planner, pairs: Sequence[Pair], limits: Limits, counters: Counters) -> Iterator[Answer[LLOutput]]:
    """The log-likelihood of each pair's continuation, and whether greedy decoding would write it.

    An empty continuation is certain: its log-likelihood is 0. The limits are for batches; plans
    have their own.
    """
    if planner.can_score(_longest(pairs)):
        yield from score_by_plan(planner.passes, pairs, size=planner.size, budget=planner.budget, counters=counters)
    else:
        yield from score_by_rows(planner.head, pairs, limits, counters)


def score_cost(planner: Planner, pairs: Sequence[Pair]) -> Cost | None:
    """What scoring costs; None where the model cannot run a plan."""
    if not planner.can_score(_longest(pairs)):
        return None
    filled = [pair for pair in pairs if pair.start < len(pair.tokens)]
    return score_plan(filled, size=planner.size, budget=planner.budget).cost


def _longest(pairs: Sequence[Pair]) -> int:
    return max((len(pair.tokens) - 1 for pair in pairs), default=0)
