"""Log-likelihoods of continuations: by plan where the model can share prefixes, from copied states, or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiform.models.torch.forward import Forward, Mode
from multiform.models.torch.limits import Limits
from multiform.models.torch.plan import Cost
from multiform.models.torch.planner import Planner
from multiform.models.torch.scoring.by_batch import Grouping, rows_of, score_by_batch
from multiform.models.torch.scoring.by_plan import score_by_plan, scoring_plan
from multiform.models.torch.scoring.by_state import Resume, score_by_state, state_plan
from multiform.models.torch.sequences import Pair
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response


def score(planner: Planner, pairs: Sequence[Pair], limits: Limits, counters: Counters) -> Iterator[Response[LLOutput]]:
    """The log-likelihood of each pair's continuation, and whether greedy decoding would generate it.

    The log-likelihood of an empty continuation is 0. The limits are for batches; plans have their own.
    """
    if not planner.is_worth_trial(_longest(pairs), work := _work(planner, pairs)):
        planner.computed_alone += work
        yield from score_by_batch(planner.head, pairs, limits, counters, Grouping.ALONE)
        return
    for part in _parts(planner, pairs):
        for position, output in _score_part(planner, [pairs[index] for index in part], limits, counters):
            yield part[position], output


def scoring_cost(planner: Planner, pairs: Sequence[Pair], limits: Limits) -> Cost | None:
    """The cost of scoring; None where not all pairs can share prefixes."""
    if not planner.is_worth_trial(_longest(pairs), _work(planner, pairs)):
        return None
    way = planner.scoring(_longest(pairs))
    nonempty = [pair for pair in pairs if pair.start < len(pair.tokens)]
    if isinstance(way, Mode):
        return scoring_plan(nonempty, size=planner.pass_size, budget=planner.budget).cost
    if isinstance(way, Resume):
        return state_plan(planner.head, nonempty, limits, way, max_kept=planner.state_budget).cost
    return None


def _parts(planner: Planner, pairs: Sequence[Pair]) -> list[list[int]]:
    """All pairs where they can share prefixes; otherwise those shorter than every window of the model, and the others.

    In one batch, long pairs would change the positions of short ones where these are scaled by the longest row.
    """
    if planner.scoring_mode(_longest(pairs)) or planner.resume(_longest(pairs)):
        return [list(range(len(pairs)))]
    parts: tuple[list[int], list[int]] = [], []
    for index, pair in enumerate(pairs):
        parts[len(pair.tokens) - 1 > planner.short_length].append(index)
    return [part for part in parts if part]


def _score_part(
    planner: Planner, pairs: Sequence[Pair], limits: Limits, counters: Counters
) -> Iterator[Response[LLOutput]]:
    way = planner.scoring(_longest(pairs))
    if isinstance(way, Mode):
        size, budget = planner.pass_size, planner.budget
        return score_by_plan(Forward(planner.head, way), pairs, size=size, budget=budget, counters=counters)
    if isinstance(way, Resume):
        return score_by_state(planner.head, pairs, limits, counters, way, max_kept=planner.state_budget)
    return score_by_batch(planner.head, pairs, limits, counters, way)


def _work(planner: Planner, pairs: Sequence[Pair]) -> int:
    """The tokens of the sequences, each computed alone; not counted for models that need no trial of that length."""
    return 0 if planner.is_known else sum(len(row.tokens) for row in rows_of(pairs))


def _longest(pairs: Sequence[Pair]) -> int:
    return max((len(pair.tokens) - 1 for pair in pairs), default=0)
