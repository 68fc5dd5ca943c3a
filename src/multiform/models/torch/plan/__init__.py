"""Plans: which tokens each forward pass computes, and which keys and values stay cached. Pure, without torch.

tree      the prefix tree of token sequences
passes    the tree cut into forward passes under a cache budget
plan      both together, with their cost
states    batches that go on from copied states, for models whose state cannot be cut
"""

from multiform.models.torch.plan.passes import Chunk, Pass, Span
from multiform.models.torch.plan.plan import Cost, Plan, describe, plan
from multiform.models.torch.plan.tree import Branch, NeededOutput, Tokens, shared_prefixes

__all__ = [
    "Branch",
    "Chunk",
    "Cost",
    "NeededOutput",
    "Pass",
    "Plan",
    "Span",
    "Tokens",
    "describe",
    "plan",
    "shared_prefixes",
]
