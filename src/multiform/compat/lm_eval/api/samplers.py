"""The samplers of few-shot examples, by name."""

from __future__ import annotations

from multiform.tasks.fewshot import FirstNSampler, Sampler, samplers
from multiform.tasks.fewshot import RandomSampler as ContextSampler

__all__ = ["ContextSampler", "FirstNSampler", "get_sampler"]


def get_sampler(name: str) -> type[Sampler]:
    """The class of a name."""
    return samplers.get(name)
