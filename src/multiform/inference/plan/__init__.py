"""Plans: which tokens a model computes, in which order, and what it keeps; pure, and for any backend.

tree      the prefix tree of token sequences
passes    the tree cut into steps under a memory budget
plan      both together, with their cost
families  sequences that share one prefix
"""

from multiform.inference.plan.families import families
from multiform.inference.plan.passes import Pass, Piece, Span
from multiform.inference.plan.plan import Cost, Plan, describe, plan
from multiform.inference.plan.tree import Branch, Read, Tokens

__all__ = ["Branch", "Cost", "Pass", "Piece", "Plan", "Read", "Span", "Tokens", "describe", "families", "plan"]
