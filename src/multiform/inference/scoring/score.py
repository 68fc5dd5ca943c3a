"""Log-likelihoods of continuations: by a plan where the model can run one, and by batches elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiform.inference.counters import Counters
from multiform.inference.limits import Limits
from multiform.inference.plan import Cost
from multiform.inference.planner import Planner
from multiform.inference.scoring.by_batch import score_by_rows
from multiform.inference.scoring.by_plan import score_by_plan, score_plan
from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response


def score(planner: Planner, pairs: Sequence[Pair], limits: Limits, counters: Counters) -> Iterator[Response[LLOutput]]:
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
