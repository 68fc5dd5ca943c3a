"""The engine of a planner, as the tests of this folder ask it."""

from __future__ import annotations

from typing import Any

from multiform.models.model import Counters
from multiform.models.torch.engine import CausalEngine
from multiform.models.torch.plan import BatchLimits
from multiform.models.torch.planner import Planner


def engine_of(
    planner: Planner, limits: BatchLimits | None = None, counters: Counters | None = None, tokenizer: Any = None
) -> CausalEngine:
    """An engine with the same limits for scoring and for generation."""
    limits = limits or BatchLimits(16, 10**6)
    return CausalEngine(
        planner=planner,
        tokenizer=tokenizer,
        limits=limits,
        generation_limits=limits,
        counters=counters or Counters(),
    )
