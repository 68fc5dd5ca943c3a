"""A plan: how a set of token sequences is computed, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiform.models.torch.plan.passes import Pass, cut
from multiform.models.torch.plan.tree import Branch, Tokens, build_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a plan, in tokens.

    `tokens` counts the tokens of all sequences, `nodes` those of the prefix tree, which is the least
    that has to be computed, and `computed` those that the plan computes. `cached` is the largest
    number of tokens whose keys and values stay cached between two passes.
    """

    sequences: int = 0
    distinct: int = 0
    tokens: int = 0
    nodes: int = 0
    computed: int = 0
    passes: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The prefix tree of some sequences, the forward passes that compute it, and their cost."""

    branches: list[Branch]
    passes: list[Pass]
    cost: Cost


def plan(sequences: Sequence[Tokens], needed_from: Sequence[int], *, size: int, budget: int) -> Plan:
    """The plan for sequences whose outputs are needed from depth `needed_from` on.

    A pass computes about `size` tokens, at most half more, so that all passes have equally many:
    a small one takes nearly as long. At most `budget` tokens stay cached between passes. The order of
    the sequences makes no difference.

    >>> from array import array
    >>> plan([array("i", [1, 2, 3]), array("i", [1, 2, 4])], [1, 1], size=512, budget=512).cost.computed
    4
    """
    branches = build_tree(sequences, needed_from)
    nodes = sum(branch.added for branch in branches)
    passes = cut(branches, size=even_size(nodes, size), budget=budget)
    cost = Cost(
        sequences=len(sequences),
        distinct=len(branches),
        tokens=sum(map(len, sequences)),
        nodes=nodes,
        computed=sum(step.computed for step in passes),
        passes=len(passes),
        cached=max((step.cached for step in passes), default=0),
    )
    return Plan(branches, passes, cost)


def even_size(total: int, size: int) -> int:
    """The size nearest to `size` of parts into which a total can be divided evenly.

    >>> even_size(519, 512), even_size(1100, 512)
    (519, 550)
    """
    passes = max(1, (2 * total + size) // (2 * size))
    return max(1, -(-total // passes))


def describe(cost: Cost) -> str:
    """The cost in a sentence.

    >>> describe(Cost(sequences=8, distinct=8, tokens=900, nodes=300, computed=300, passes=1))
    '8 sequences of 900 tokens: 300 in the prefix tree, 300 computed (3.0 times less) in 1 pass, at most 0 cached'
    """
    times = f"{cost.tokens / max(1, cost.computed):.1f} times less"
    passes = f"{cost.passes:,} pass{'' if cost.passes == 1 else 'es'}"
    return (
        f"{cost.sequences:,} sequences of {cost.tokens:,} tokens: {cost.nodes:,} in the prefix tree, "
        f"{cost.computed:,} computed ({times}) in {passes}, at most {cost.cached:,} cached"
    )
