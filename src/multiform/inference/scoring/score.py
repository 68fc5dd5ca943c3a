"""Log-likelihoods of continuations: by plan where the model can share prefixes, and in batches elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiform.inference.counters import Counters
from multiform.inference.limits import Limits
from multiform.inference.plan import Cost
from multiform.inference.planner import Planner
from multiform.inference.scoring.by_batch import score_by_batch
from multiform.inference.scoring.by_plan import score_by_plan, scoring_plan
from multiform.inference.sequences import Pair
from multiform.requests import LLOutput, Response


def score(planner: Planner, pairs: Sequence[Pair], limits: Limits, counters: Counters) -> Iterator[Response[LLOutput]]:
    """The log-likelihood of each pair's continuation, and whether greedy decoding would generate it.

    The log-likelihood of an empty continuation is 0. The limits are for batches; plans have their own.
    """
    if planner.can_plan_scoring(_longest(pairs)):
        size, budget = planner.pass_size, planner.budget
        yield from score_by_plan(planner.forward, pairs, size=size, budget=budget, counters=counters)
    else:
        yield from score_by_batch(planner.head, pairs, limits, counters)


def scoring_cost(planner: Planner, pairs: Sequence[Pair]) -> Cost | None:
    """The cost of scoring; None where the model cannot share prefixes."""
    if not planner.can_plan_scoring(_longest(pairs)):
        return None
    nonempty = [pair for pair in pairs if pair.start < len(pair.tokens)]
    return scoring_plan(nonempty, size=planner.pass_size, budget=planner.budget).cost


def _longest(pairs: Sequence[Pair]) -> int:
    return max((len(pair.tokens) - 1 for pair in pairs), default=0)
